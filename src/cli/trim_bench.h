// TrimBench: measures one case of trimming on a model: the context is computed once, cut by each
// policy to each share, and asked for single values behind the cut. What cuts is what the engine
// uses (engine::ContextTrim). The questions come after the cut, so that no policy has seen them;
// each is asked of the same view and forgotten again. Main thread.
//
//   context   [ system, table ........................ ]   computed once, shared through the ledger
//   full      [ all of it                              | question | answer ]   rows to compare with
//   view      [ sinks | chosen rows | recent ]         | question | answer ]
//   turns     [ sinks | chosen rows | recent ]         | question | answer | question | answer ]
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cli/runtime.h"
#include "cli/trim_cases.h"
#include "engine/context_trim.h"
#include "model/open_tile.h"

namespace refrain::cli {

struct TrimOptions {
  std::uint32_t step_tokens = 256;
  std::size_t questions = 10;  // of each case, spread over its rows
  std::vector<const model::TrimPolicy*> policies;
  std::vector<std::uint32_t> ratios;  // a context is cut to 1/ratio
};

// One answer behind a view, or behind the full context.
struct TrimAnswer {
  double place = 0;    // of what was asked for in the context, 0 to 1
  bool right = false;  // each token of the value is the likeliest, read behind those before it
  bool second_turn = false;
  double kl = 0;        // mean over the answer's rows against the full context, nats
  double same_top = 1;  // share of these rows
};

struct TrimResult {
  const model::TrimPolicy* policy = nullptr;  // null: nothing cut
  std::uint32_t ratio = 1;
  std::uint32_t context_tokens = 0;
  std::uint32_t kept_tokens = 0;
  Tick look = 0;  // time of the policy's look at the context
  std::vector<TrimAnswer> answers;
};

class TrimBench {
 public:
  // `compute` outlives it.
  static Result<std::unique_ptr<TrimBench>> create(Compute& compute, const TrimOptions& options);

  // The full context first, then every policy and ratio. kInvalidArgument for a case that does not
  // fit, or whose context is too short for a ratio.
  Result<std::vector<TrimResult>> measure(const TrimCase& one);

 private:
  // What is run behind the context, of which `scored` rows give the answer's tokens.
  struct Question {
    double place = 0;
    bool second_turn = false;
    TokenList tokens;
    std::size_t value_begin = 0, value_end = 0;  // tokens of the value
    std::vector<float> full_rows;                // [scored][vocabulary_size]
    std::size_t scored_from() const { return value_begin - kRowsInFront; }
    std::size_t scored_rows() const { return value_end - scored_from(); }
  };
  static constexpr std::size_t kRowsInFront = 4;  // rows of the answer scored before the value

  TrimBench(Compute& compute, const TrimOptions& options, std::unique_ptr<kv::Ledger> ledger);
  Result<TokenList> encode(const std::vector<text::ChatMessage>& messages) const;
  // Splits the case's prompts into what they have in common and what follows.
  Result<std::vector<Question>> encode_questions(const TrimCase& one, TokenList* context) const;
  Result<Question> encode_question(const TrimCase& one, std::size_t first,
                                   std::optional<std::size_t> second) const;
  // Starts a sequence with the context's rows; the last one is computed.
  Result<SequenceId> open(const TokenList& context, std::uint32_t more);
  void close(SequenceId id);
  // Logits [question.scored_rows()][vocabulary_size] behind what the sequence has.
  Result<std::vector<float>> ask(SequenceId id, const Question& question);
  Result<void> run(SequenceId id, std::span<const TokenId> tokens, std::size_t first_logits,
                   std::vector<float>& logits);
  bool is_right(const Question& question, std::span<const float> rows) const;
  Result<TrimResult> measure_cut(const TokenList& context, const std::vector<Question>& questions,
                                 const model::TrimPolicy& policy, std::uint32_t ratio,
                                 model::TrimScores& scores, Tick& look);

  Compute& compute_;
  const TrimOptions options_;
  SteadyClock clock_;
  std::unique_ptr<kv::Ledger> ledger_;
  const engine::TrimParts parts_;
  std::uint64_t next_id_ = 1;
  // Of the one sequence there is at a time.
  const model::HeadView* view_ = nullptr;  // what its heads see once it is cut
  model::OpenTile open_tile_;
  model::BatchOutput output_;
};

}  // namespace refrain::cli
