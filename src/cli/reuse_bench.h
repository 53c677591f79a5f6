// ReuseBench: measures one case of reuse on a model, rung by rung, against the same prompt computed
// cold. Errors are those of the first rows of the answer: the last row of the prompt and those of
// the tokens that the cold run answers greedily, the same tokens for every rung. What is found,
// moved and repaired is what the engine does (Ledger::plan, model::Splice, engine::PromptRepair).
// Main thread.
//
//   cold        all rows                                          -> answer, its rows, TTFT
//   cold again  all rows in other chunks                          -> must be the same bits
//   rung        prefix shared, runs moved | look | chosen + fresh -> rows of the same answer, TTFT
//   (changed and copied cases: and what each variant itself answers greedily)
//   gate        the same, as far as a calibrated gate wants       -> or refused, and computed
//   dropped     the prompt without what would have been moved     -> rows of the same answer
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cli/lane.h"
#include "cli/reuse_cases.h"
#include "cli/row_errors.h"
#include "cli/runtime.h"
#include "engine/prompt_repair.h"
#include "model/splice.h"

namespace refrain::cli {

struct ReuseOptions {
  std::uint32_t step_tokens = 256;
  std::uint32_t answer_rows = 24;
  std::vector<model::RepairRung> rungs;
  bool checks = true;                      // cold again, and dropped
  const model::ReuseGate* gate = nullptr;  // null: not measured
  double max_divergence = 0.05;            // for the gate, as the next
  double max_changed_first_tokens = 0.1;
};

struct RungResult {
  model::RepairRung rung{};
  RowErrors errors;
  std::uint32_t repaired_rows = 0;  // moved rows computed again
  Tick ttft = 0;                    // from the prompt's tokens to the logits of its last row
  Tick move = 0;                    // of that, copying and turning rows
  std::string answer = {};          // greedy; of changed and copied cases
  std::optional<double> exposure;   // what a gate would judge by; of rungs with attention or fewer
};

struct GateResult {
  bool left_alone = false;         // too little to spare: computed without a look
  bool refused = false;            // before its first token
  std::optional<double> estimate;  // nats
  // Of each row of the answer that the estimate speaks of, as the repaired prompt gives it: how
  // likely another token is than the cold one (ReuseGate::changed_token).
  std::vector<double> changed_token = {};
  // Token of the answer before which all was computed after all, for it was nearly another one.
  std::optional<std::uint32_t> tie = {};
  RungResult chosen;  // refused or left alone: computed, all of it
};

struct ReuseResult {
  ReuseKind kind{};
  std::uint32_t prompt_tokens = 0;
  std::uint32_t exact_tokens = 0;
  std::uint32_t moved_tokens = 0;
  std::uint32_t run_count = 0;
  model::ContextChange change{};  // as the gate sees it
  Tick cold_ttft = 0;
  std::uint32_t cold_rows = 0;  // of the cold answer
  RowErrors cold_again;  // this and the next: without rows if not checked
  RowErrors dropped;
  std::string cold_answer = {};  // as RungResult::answer
  // kChanged: the cold answer to the same question before the change, and the values.
  std::string answer_before = {}, old_value = {}, new_value = {};
  std::string span = {};  // kCopied: the 100 tokens that were to be repeated
  std::vector<RungResult> rungs;
  std::optional<GateResult> gate;

  std::uint32_t fresh_tokens() const { return prompt_tokens - exact_tokens - moved_tokens; }
};

class ReuseBench {
 public:
  // `compute` outlives it. kUnavailable.
  static Result<std::unique_ptr<ReuseBench>> create(Compute& compute, const ReuseOptions& options);

  // kUnsupported if the executor gives no attention mass and a rung needs it; kInvalidArgument for
  // a case that does not fit.
  Result<ReuseResult> measure(const ReuseCase& one);

 private:
  // A prompt, and where the last user turn begins.
  struct Asked {
    TokenList tokens;
    Position turn = 0;
    TokenList behind = {};  // of a next turn: what goes on behind the prompt, once it is repaired
  };
  // How many rows of an answer count, and whether what is answered counts as well.
  struct Wanted {
    std::uint32_t rows = 0;
    bool answers = false;
  };
  struct Cold {
    TokenList answer;
    std::vector<float> rows;  // [1 + answer][vocabulary_size]
    Tick ttft = 0;
  };
  // A prompt whose repair has ended; `last`: logits of its last row, if it was accepted.
  struct Repaired {
    engine::PromptRepair repair;
    std::vector<float> last;
  };

  ReuseBench(Compute& compute, const ReuseOptions& options);
  Result<Asked> encode(const Messages& messages) const;
  Result<void> store(const ReuseCase& one);
  // What is repaired: the target, or the turn before it.
  Result<Asked> repaired_turn(const ReuseCase& one, Asked target) const;
  // With what was found, and room for what goes on behind it.
  Result<Lane> open_warm(const Asked& asked, const Wanted& wanted);
  // The next turn, if there is one: `last` and `ttft` are then of that.
  Result<void> go_on(Lane& lane, const Asked& asked, std::vector<float>& last, Tick& ttft);
  Wanted wanted_of(ReuseKind kind) const;
  Result<Cold> run_cold(const TokenList& prompt, std::uint32_t rows);
  // Goes on greedily behind `cold.rows`, which has that of the last token; at most `rows` of them.
  Result<void> answer(Lane& lane, Cold& cold, std::uint32_t rows);
  // What is answered greedily where the rows of the cold answer are `rows`.
  Result<std::string> own_answer(Lane& lane, std::vector<float> rows, const TokenList& cold_answer,
                                 std::uint32_t wanted_rows);
  Result<std::string> answer_before(const Messages& before, std::uint32_t rows);
  std::string text_of(const TokenList& answer) const;
  Result<void> describe(const ReuseCase& one, const Cold& cold, ReuseResult& result);
  // Errors and answer behind a prompt whose rows are computed; `rows` those of the cold answer.
  Result<void> compare(Lane& lane, std::vector<float> rows, const Cold& cold, const Wanted& wanted,
                       RungResult& result);
  // GateResult::changed_token of such rows, from the first of the answer on.
  std::vector<double> changed_tokens(std::span<const float> rows, double estimate) const;
  // The first row that the gate takes for a near tie.
  std::optional<std::uint32_t> first_tie(const GateResult& result) const;
  // Rows of the answer behind a prompt whose rows are computed; `last` are its last logits.
  Result<std::vector<float>> answer_rows(Lane& lane, std::vector<float> last,
                                         const TokenList& answer);
  Result<RowErrors> compare_cold(const TokenList& prompt, const Cold& cold,
                                 std::uint32_t step_tokens);
  Tick move_runs(const Lane& lane);
  Result<Repaired> repair(const Lane& lane, Position turn, const engine::RepairJudge& judge);
  Result<RungResult> run_rung(model::RepairRung rung, const Asked& asked, const Cold& cold,
                              const Wanted& wanted);
  Result<GateResult> run_gate(const Asked& asked, const Cold& cold, const Wanted& wanted);
  Result<void> look(const Asked& asked, std::vector<RungResult>& rungs);

  Compute& compute_;
  const ReuseOptions options_;
  const model::ProbeReader probes_;
  SteadyClock clock_;
  std::unique_ptr<Lanes> lanes_;
  std::unique_ptr<model::Splice> splice_;
  model::BatchOutput output_;
};

}  // namespace refrain::cli
