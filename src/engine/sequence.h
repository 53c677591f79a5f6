// Sequence: one choice of one request while it waits and runs: its tokens, how many of them have
// valid K/V, how the next is sampled and how its text leaves. Knows nothing of blocks, batches or
// other sequences. Owned by ActiveRequest; engine thread.
//
//   tokens    [ prompt ............ | generated ... ]
//   computed  [ rows with K/V ............ )  pending
//
// A prompt with moved runs is computed up to the first one; then its repair says which rows run, in
// which order, and the rest counts as computed at once, when it is accepted.
//
// A sampled token is pending until the next step runs it; when the sequence ends, it never has
// K/V and is not published.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "engine/choice_text.h"
#include "engine/context_trim.h"
#include "engine/grammar.h"
#include "engine/idle_work.h"
#include "engine/prompt_repair.h"
#include "engine/request.h"
#include "engine/sampler.h"
#include "model/open_tile.h"
#include "text/tokenizer.h"

namespace refrain::engine {

class Sequence {
 public:
  Sequence(SequenceId id, std::uint32_t choice, std::uint64_t seed, const GenerateRequest& request);

  SequenceId id() const { return id_; }
  std::uint32_t choice() const { return choice_; }
  RequestId request_id() const { return request_id_; }
  const TokenList& tokens() const { return tokens_; }
  std::uint32_t prompt_tokens() const { return prompt_tokens_; }
  std::uint32_t generated_tokens() const {
    return static_cast<std::uint32_t>(tokens_.size()) - prompt_tokens_;
  }
  std::uint32_t computed() const { return computed_; }
  // Of its prompt, found in the cache when it was admitted.
  std::uint32_t reused_tokens() const { return reused_; }
  // Rows that may run now; those of a repair while it lasts, none while its context is looked at.
  std::uint32_t pending() const;
  bool decoding() const { return generated_tokens() > 0; }

  // Waiting -> holding blocks -> ended.
  bool holds_blocks() const { return holds_blocks_; }
  bool ended() const { return ended_; }
  void admitted(std::uint32_t cached_tokens);
  void rows_computed(std::uint32_t count) { computed_ += count; }
  // The prompt has runs: what is behind the first one's beginning goes through `repair`.
  void repair_with(std::unique_ptr<PromptRepair> repair, std::vector<kv::SegmentRun> runs) {
    repair_ = std::move(repair);
    runs_ = std::move(runs);
  }
  // To be moved when the repair begins.
  std::vector<kv::SegmentRun> take_runs() { return std::exchange(runs_, {}); }
  PromptRepair* repair() { return repair_.get(); }
  const PromptRepair* repair() const { return repair_.get(); }
  // All rows in front of the repair are computed, none behind.
  bool repairing() const {
    return repair_ != nullptr && computed_ == static_cast<std::uint32_t>(repair_->first_row());
  }
  // For its batches.
  model::OpenTile& open_tile() { return open_tile_; }
  // Its context is being trimmed, or was.
  void trim_with(std::unique_ptr<ContextTrim> trim) { trim_ = std::move(trim); }
  ContextTrim* trim() { return trim_.get(); }
  const ContextTrim* trim() const { return trim_.get(); }
  // Its prompt is approximate: what to compute exactly once it has ended and nobody waits.
  void keep_for_idle(std::unique_ptr<ApproximateAnswer> answer) {
    approximate_ = std::move(answer);
  }
  std::unique_ptr<ApproximateAnswer> take_for_idle() { return std::move(approximate_); }
  // Accepted: the prompt is computed. Refused: its rows from the first run on are pending.
  void end_repair();
  // Its blocks went back: from now on it is exact, and waits to be admitted once more. Its answer
  // so far stays, and is computed like a prompt.
  void begin_again();
  bool begun_again() const { return begun_again_; }
  void end(FinishReason reason) {
    ended_ = true;
    finish_reason_ = reason;
  }
  FinishReason finish_reason() const { return finish_reason_; }
  void blocks_given_back() { holds_blocks_ = false; }

  // How the next token would be chosen: see Sampler.
  bool greedy() const { return sampler_.greedy(); }
  double margin(std::span<float> logits) { return sampler_.margin(logits, grammar_.get()); }
  // Chooses the next token from `logits` ([vocabulary_size], overwritten). Errors of the sampler.
  Result<Sample> sample(std::span<float> logits);
  // Takes a sampled token over. What may be sent is collected for take_event(). The reason if the
  // choice is finished by this token; kInternal if the grammar refuses the token.
  Result<std::optional<FinishReason>> take(const Sample& sample, const text::Tokenizer& tokenizer);
  // Releases what is still held back; for ends that take() did not decide.
  void flush();
  // What was released since the last call; nothing if there is nothing to send.
  std::optional<TokenEvent> take_event();
  const std::string& stop_matched() const { return stop_matched_; }

  bool trims = false;           // its context is to be kept within a budget
  bool is_long = false;         // of the long class (isolation.h)
  bool is_approximate = false;  // its prompt has rows that a cold run would not have computed
  // Of that, mean KL in nats over the first tokens of its answer; none if nothing judged it.
  std::optional<double> expected_divergence = {};
  Tick first_token_at = 0;
  Tick last_token_at = 0;
  std::uint64_t last_turn = 0;  // when it was served last; for fair turns

 private:
  void collect(ChoiceText::Release release);

  const GenerateRequest& request_;
  const SequenceId id_;
  const RequestId request_id_;
  const std::uint32_t choice_;
  const std::uint32_t prompt_tokens_;
  TokenList tokens_;
  std::uint32_t computed_ = 0;
  std::uint32_t reused_ = 0;
  model::OpenTile open_tile_;
  std::unique_ptr<PromptRepair> repair_;
  std::vector<kv::SegmentRun> runs_;
  std::unique_ptr<ContextTrim> trim_;
  std::unique_ptr<ApproximateAnswer> approximate_;
  bool holds_blocks_ = false;
  bool begun_again_ = false;
  bool ended_ = false;
  FinishReason finish_reason_ = FinishReason::kStop;
  bool flushed_ = false;
  Sampler sampler_;
  std::unique_ptr<GrammarState> grammar_;
  ChoiceText text_;
  TokenEvent collected_;
  std::string stop_matched_;
};

// The text pieces of a logprob entry; also used for prompts.
TokenLogprob make_logprob_item(const Sample& sample, const text::Tokenizer& tokenizer);

}  // namespace refrain::engine
