#include "engine/active_request.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"

namespace refrain::engine {
namespace {

// At most this many progress events per request, so that tiny chunks do not flood the stream.
constexpr std::uint32_t kMaxProgressEvents = 64;

double milliseconds_between(Tick begin, Tick end) {
  return begin < 0 || end < begin ? 0.0 : to_milliseconds(end - begin);
}

}  // namespace

ActiveRequest::ActiveRequest(GenerateRequest request, std::shared_ptr<OutputStream> stream,
                             Tick submitted_at)
    : request_(std::move(request)), stream_(std::move(stream)), submitted_at_(submitted_at) {
  usage_.prompt_tokens = static_cast<std::uint32_t>(request_.prompt.size());
}

bool ActiveRequest::publishes() const {
  return request_.use_cache && !embeds();
}

// Embeddings and prompt logprobs need every row computed; further choices do not score the prompt.
bool ActiveRequest::matches_cache(const Sequence& sequence) const {
  return publishes() && (!request_.prompt_logprobs || sequence.choice() > 0);
}

void ActiveRequest::create_choices(std::uint64_t first_id, std::uint64_t seed) {
  const std::uint32_t count = embeds() ? 1 : request_.choice_count;
  for (std::uint32_t choice = 0; choice < count; ++choice)
    choices_.push_back(std::make_unique<Sequence>(static_cast<SequenceId>(first_id + choice),
                                                  choice, seed + choice, request_));
}

bool ActiveRequest::all_choices_ended() const {
  return std::all_of(choices_.begin(), choices_.end(),
                     [](const auto& choice) { return choice->ended(); });
}

void ActiveRequest::count_as_long() {
  for (auto& choice : choices_) choice->is_long = true;
}

void ActiveRequest::give_way() {
  throttled_ = true;
  count_as_long();
}

void ActiveRequest::note_alarm(Alarm alarm, bool throttle) {
  alarm_ = alarm;
  if (throttle) give_way();
}

void ActiveRequest::note_admitted(Tick now, std::uint32_t cached_tokens, kv::MissReason reason) {
  admitted_at_ = now;
  usage_.cached_tokens = cached_tokens;
  usage_.miss_reason = reason;
}

void ActiveRequest::note_repair(const PromptRepair& repair) {
  usage_.moved_tokens += repair.moved_rows();
  usage_.repaired_tokens += repair.repaired_rows();
  usage_.computed_tokens += repair.fresh_rows();
  if (repair.estimate()) usage_.divergence_estimate = repair.estimate();
}

void ActiveRequest::note_begun_again(std::uint32_t cached_tokens, bool answering) {
  usage_.cached_tokens = std::min(cached_tokens, usage_.prompt_tokens);
  usage_.moved_tokens = usage_.repaired_tokens = 0;
  usage_.computed_tokens = answering ? usage_.prompt_tokens - usage_.cached_tokens : 0;
  usage_.divergence_estimate.reset();
  usage_.refusal = ReuseRefusal::kNearTie;
}

void ActiveRequest::note_first_step(Tick now) {
  if (first_step_at_ == kNever) first_step_at_ = now;
}

void ActiveRequest::note_prompt_done(Tick now) {
  if (prompt_done_at_ == kNever) prompt_done_at_ = now;
}

void ActiveRequest::note_token(Sequence& sequence, Tick now, double step_read_bytes) {
  ++usage_.completion_tokens;
  if (first_token_at_ == kNever) first_token_at_ = now;
  if (sequence.generated_tokens() == 1) {
    sequence.first_token_at = now;
  } else {
    recent_gap_.add(now - sequence.last_token_at);
    gap_read_bytes_ += step_read_bytes;
    ++gap_count_;
  }
  sequence.last_token_at = now;
  last_token_at_ = now;
}

void ActiveRequest::add_hidden(std::span<const float> row) {
  hidden_sum_.resize(row.size(), 0.0);
  for (std::size_t i = 0; i < row.size(); ++i) hidden_sum_[i] += static_cast<double>(row[i]);
  ++hidden_rows_;
}

Result<std::vector<float>> ActiveRequest::mean_hidden() const {
  double square_sum = 0.0;
  for (const double value : hidden_sum_) square_sum += value * value;
  const double norm = std::sqrt(square_sum);
  if (!std::isfinite(norm) || norm == 0.0)
    return Error{Code::kInternal, "the model produced a hidden state without a usable length"};
  // The mean and the sum have the same direction.
  std::vector<float> embedding(hidden_sum_.size());
  for (std::size_t i = 0; i < embedding.size(); ++i)
    embedding[i] = static_cast<float>(hidden_sum_[i] / norm);
  return embedding;
}

Result<void> ActiveRequest::add_prompt_logprob(std::span<const float> logits,
                                               std::uint32_t position,
                                               const text::Tokenizer& tokenizer) {
  if (prompt_logprobs_.empty()) {
    prompt_logprobs_.push_back(
        make_logprob_item(Sample{.token = request_.prompt.front()}, tokenizer));
  }
  if (position + 1 >= request_.prompt.size()) return {};
  ASSIGN_OR_RETURN(const Sample scored, read_logprobs(logits, request_.prompt[position + 1],
                                                      request_.sampling.top_logprobs));
  prompt_logprobs_.push_back(make_logprob_item(scored, tokenizer));
  return {};
}

void ActiveRequest::send_progress(std::uint32_t done) {
  const std::uint32_t total = usage_.prompt_tokens;
  const bool whole = done >= total;
  if (whole && progress_sent_ == 0) return;  // the prompt took one step
  if (!whole && done < progress_sent_ + total / kMaxProgressEvents) return;
  progress_sent_ = done;
  TokenEvent event;
  event.kind = TokenEvent::Kind::kPromptProgress;
  event.progress_done = done;
  event.progress_total = total;
  stream_->on_event(std::move(event));
}

void ActiveRequest::send_text(Sequence& sequence) {
  if (auto event = sequence.take_event()) stream_->on_event(std::move(*event));
}

void ActiveRequest::send_choice_finished(Sequence& sequence, FinishReason reason) {
  sequence.flush();
  send_text(sequence);
  TokenEvent event;
  event.kind = TokenEvent::Kind::kChoiceFinished;
  event.choice = sequence.choice();
  event.finish_reason = reason;
  event.stop_matched = sequence.stop_matched();
  stream_->on_event(std::move(event));
}

Result<void> ActiveRequest::finish(FinishReason reason) {
  CHECK(!ended_, "a request ends once");
  TokenEvent event;
  const bool complete = reason == FinishReason::kStop || reason == FinishReason::kLength;
  if (embeds() && complete) {
    ASSIGN_OR_RETURN(event.embedding, mean_hidden());
  }
  ended_ = true;
  reason_ = reason;
  event.kind = TokenEvent::Kind::kFinished;
  event.finish_reason = reason;
  event.usage = usage_;
  event.timings = timings();
  event.prompt_logprobs = std::move(prompt_logprobs_);
  last_event_ = std::move(event);
  return {};
}

void ActiveRequest::fail(Error error) {
  CHECK(!ended_, "a request ends once");
  ended_ = true;
  reason_ = error.code == Code::kDeadline ? FinishReason::kDeadline : FinishReason::kError;
  TokenEvent event;
  event.kind = TokenEvent::Kind::kError;
  event.finish_reason = reason_;
  event.usage = usage_;
  event.timings = timings();
  event.error = std::move(error);
  last_event_ = std::move(event);
}

void ActiveRequest::send_last_event() {
  CHECK(ended_, "only an ended request has a last event");
  stream_->on_event(std::move(last_event_));
  stream_.reset();
}

RequestKv ActiveRequest::kv_row() const {
  RequestKv row{.id = id(),
                .label = request_.label,
                .tenant = request_.tenant,
                .prompt_tokens = usage_.prompt_tokens,
                .reused_tokens = usage_.cached_tokens + usage_.moved_tokens,
                .generated_tokens = usage_.completion_tokens,
                .kv_tokens = kv_use_.tokens(),
                .peak_tokens = kv_use_.peak(),
                .mean_tokens = kv_use_.mean(),
                .age_s = kv_use_.age_s(),
                .is_long = is_long(),
                .alarm = alarm_,
                .throttled = throttled_};
  for (const auto& choice : choices_) row.choices += choice->holds_blocks() ? 1 : 0;
  if (gap_count_ == 0) return row;
  row.step_read_bytes = gap_read_bytes_ / static_cast<double>(gap_count_);
  row.tpot_ms = timings().tpot_ms;
  return row;
}

Timings ActiveRequest::timings() const {
  Timings times;
  times.queue_ms = milliseconds_between(submitted_at_, admitted_at_);
  const Tick prompt_end = first_token_at_ != kNever ? first_token_at_ : prompt_done_at_;
  times.prefill_ms = milliseconds_between(first_step_at_, prompt_end);
  times.ttft_ms = milliseconds_between(submitted_at_, prompt_end);
  times.decode_ms = milliseconds_between(first_token_at_, last_token_at_);
  // Mean over the gaps of all choices.
  double gap_ms = 0.0;
  std::uint32_t gap_count = 0;
  for (const auto& choice : choices_) {
    if (choice->generated_tokens() < 2) continue;
    gap_ms += milliseconds_between(choice->first_token_at, choice->last_token_at);
    gap_count += choice->generated_tokens() - 1;
  }
  times.tpot_ms = gap_count == 0 ? 0.0 : gap_ms / gap_count;
  return times;
}

}  // namespace refrain::engine
