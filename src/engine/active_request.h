// ActiveRequest: one accepted request from the inbox to its last event: its choices, its usage and
// times, what it collects besides text (embedding, prompt logprobs), and the events it sends.
// Owned by the engine; engine thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/isolation.h"
#include "engine/kv_report.h"
#include "engine/kv_use.h"
#include "engine/request.h"
#include "engine/sequence.h"

namespace refrain::engine {

class ActiveRequest {
 public:
  ActiveRequest(GenerateRequest request, std::shared_ptr<OutputStream> stream, Tick submitted_at);
  ActiveRequest(const ActiveRequest&) = delete;
  ActiveRequest& operator=(const ActiveRequest&) = delete;

  const GenerateRequest& request() const { return request_; }
  RequestId id() const { return request_.id; }
  bool embeds() const { return request_.task == Task::kEmbed; }
  // Whether blocks of this request may come from and go to the cache.
  bool matches_cache(const Sequence& sequence) const;
  bool publishes() const;

  // Makes the choices; ids from `first_id` upwards, seeds from `seed` upwards.
  void create_choices(std::uint64_t first_id, std::uint64_t seed);
  std::vector<std::unique_ptr<Sequence>>& choices() { return choices_; }
  const std::vector<std::unique_ptr<Sequence>>& choices() const { return choices_; }
  Sequence& first_choice() { return *choices_.front(); }
  bool all_choices_ended() const;
  // Of the long class from now on.
  void count_as_long();
  // Counts as long, and others go before it.
  void give_way();
  bool is_long() const { return choices_.front()->is_long; }
  // Out of line, and whether others go before it from now on. At most one alarm per request.
  void note_alarm(Alarm alarm, bool throttle);
  Alarm alarm() const { return alarm_; }
  bool throttled() const { return throttled_; }
  bool ended() const { return ended_; }

  // ---- what happens to it, in this order
  void note_admitted(Tick now, std::uint32_t cached_tokens, kv::MissReason reason);
  void note_refusal(ReuseRefusal refusal) { usage_.refusal = refusal; }
  // Reused from the second tree.
  void note_approximate(std::uint32_t tokens, double divergence) {
    usage_.moved_tokens += tokens;
    usage_.divergence_estimate = divergence;
  }
  void note_repair(const PromptRepair& repair);
  // A near tie: all of its prompt but `cached_tokens` is computed, exactly. Before the answer rows
  // are counted as they come; then they are known.
  void note_begun_again(std::uint32_t cached_tokens, bool answering);
  // So many tokens of the first choice's context are trimmed away by now.
  void note_dropped(std::uint32_t tokens) { usage_.dropped_tokens = tokens; }
  void note_first_step(Tick now);
  void note_prompt_rows(std::uint32_t count) { usage_.computed_tokens += count; }
  void note_prompt_done(Tick now);
  // The token came out of a step that read so many bytes.
  void note_token(Sequence& sequence, Tick now, double step_read_bytes);
  // From `now` on its choices hold so many token slots together.
  void note_kv(Tick now, std::uint64_t tokens) { kv_use_.note(now, tokens); }
  void add_hidden(std::span<const float> row);
  // Row `position` of the prompt scores the token behind it.
  Result<void> add_prompt_logprob(std::span<const float> logits, std::uint32_t position,
                                  const text::Tokenizer& tokenizer);

  // ---- events; nothing follows finish() or fail(), whose event is kept for send_last_event()
  void send_progress(std::uint32_t done);
  void send_text(Sequence& sequence);
  void send_choice_finished(Sequence& sequence, FinishReason reason);
  Result<void> finish(FinishReason reason);
  void fail(Error error);
  // Sends the event of finish() or fail(), once everything about the request is counted.
  void send_last_event();

  Tick submitted_at() const { return submitted_at_; }
  Tick admitted_at() const { return admitted_at_; }
  Tick first_token_at() const { return first_token_at_; }
  bool was_admitted() const { return admitted_at_ != kNever; }
  bool sampled_any() const { return first_token_at_ != kNever; }
  const Usage& usage() const { return usage_; }
  // Times so far; final once the request has ended.
  Timings timings() const;
  const KvUse& kv_use() const { return kv_use_; }
  // Time per token lately, over all choices; 0 while there are few.
  double recent_tpot_ms() const { return recent_gap_.value_ms(); }
  // Its row but for what only the ledger knows, the blocks.
  RequestKv kv_row() const;
  // How it ended.
  FinishReason reason() const { return reason_; }

 private:
  static constexpr Tick kNever = -1;
  Result<std::vector<float>> mean_hidden() const;

  GenerateRequest request_;
  std::shared_ptr<OutputStream> stream_;
  TokenEvent last_event_;
  std::vector<std::unique_ptr<Sequence>> choices_;
  Usage usage_;
  Tick submitted_at_;
  Tick admitted_at_ = kNever;
  Tick first_step_at_ = kNever;
  Tick prompt_done_at_ = kNever;
  Tick first_token_at_ = kNever;
  Tick last_token_at_ = kNever;
  KvUse kv_use_;
  Alarm alarm_ = Alarm::kNone;
  bool throttled_ = false;
  FollowingGap recent_gap_;
  double gap_read_bytes_ = 0;  // of the steps that gave tokens after the first of a choice
  std::uint64_t gap_count_ = 0;
  std::uint32_t progress_sent_ = 0;
  bool ended_ = false;
  FinishReason reason_ = FinishReason::kStop;
  std::vector<double> hidden_sum_;
  std::uint32_t hidden_rows_ = 0;
  std::vector<TokenLogprob> prompt_logprobs_;
};

}  // namespace refrain::engine
