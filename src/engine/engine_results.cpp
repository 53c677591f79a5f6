// What a step produced: prompt results, tokens, ends and errors. Engine thread.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/engine_impl.h"

namespace refrain::engine {

std::span<float> Engine::Impl::logits_row(std::size_t row) {
  const std::size_t width = parts_.vocabulary_size;
  CHECK((row + 1) * width <= output_.logits.size(), "the executor returned too few logits");
  return std::span(output_.logits).subspan(row * width, width);
}

void Engine::Impl::take_results() {
  for (const ScheduledSequence& entry : scheduled_) {
    if (entry.sequence->ended()) continue;  // another choice of its request failed in this step
    Result<void> taken = take_result(entry);
    if (!taken) fail_request(*entry.request, taken.error());
  }
}

// A row is committed only after its results were found sound: a broken step publishes nothing.
Result<void> Engine::Impl::take_result(const ScheduledSequence& entry) {
  Sequence& sequence = *entry.sequence;
  ActiveRequest& request = *entry.request;
  if (sequence.repairing()) return take_repair(entry);
  if (!sequence.decoding()) RETURN_IF_ERROR(read_prompt_results(entry));
  if (!entry.samples) {
    commit_rows(entry);
    return {};
  }
  const std::span<float> logits = logits_row(entry.first_logits + entry.logit_count - 1);
  if (is_near_tie(request, sequence, logits)) return compute_exactly(request, sequence);
  keep_for_idle(request, sequence, logits);
  ASSIGN_OR_RETURN(const Sample sample, sequence.sample(logits));
  commit_rows(entry);
  return take_token(request, sequence, sample);
}

Result<void> Engine::Impl::read_prompt_results(const ScheduledSequence& entry) {
  ActiveRequest& request = *entry.request;
  if (request.embeds()) {
    const std::size_t width = parts_.embedding_dim;
    const std::span<const float> hidden(output_.hidden);
    CHECK((entry.first_hidden + entry.row_count) * width <= hidden.size(),
          "the executor returned too few hidden states");
    for (std::uint32_t row = 0; row < entry.row_count; ++row)
      request.add_hidden(hidden.subspan((entry.first_hidden + row) * width, width));
  }
  if (request.request().prompt_logprobs && entry.sequence->choice() == 0)
    for (std::uint32_t row = 0; row < entry.logit_count; ++row)
      RETURN_IF_ERROR(request.add_prompt_logprob(logits_row(entry.first_logits + row),
                                                 entry.first_position + row, *parts_.tokenizer));
  return {};
}

void Engine::Impl::commit_rows(const ScheduledSequence& entry) {
  Sequence& sequence = *entry.sequence;
  ActiveRequest& request = *entry.request;
  const bool in_prompt = !sequence.decoding();
  sequence.rows_computed(entry.row_count);
  if (request.publishes() || sequence.trim() != nullptr) ledger_.commit(sequence.id());
  if (!in_prompt) return;
  computed_prompt_tokens_ += entry.row_count;
  if (sequence.repairing()) begin_repair(sequence);
  if (sequence.choice() == 0) request.note_prompt_rows(entry.row_count);
  prompt_rows_done(request, sequence);
}

// More of the prompt of the first choice is there, perhaps all.
void Engine::Impl::prompt_rows_done(ActiveRequest& request, const Sequence& sequence) {
  if (sequence.choice() != 0) return;
  request.send_progress(sequence.computed());
  if (sequence.pending() == 0) prompt_done(request);
}

void Engine::Impl::prompt_done(ActiveRequest& request) {
  request.note_prompt_done(now_);
  if (request.embeds()) {
    end_open_choices(request, FinishReason::kStop);
  } else if (request.request().max_tokens == 0) {
    end_open_choices(request, FinishReason::kLength);
  } else {
    queue_siblings(request);
  }
}

Result<void> Engine::Impl::take_token(ActiveRequest& request, Sequence& sequence,
                                      const Sample& sample) {
  const Tick gap = now_ - sequence.last_token_at;
  ASSIGN_OR_RETURN(const std::optional<FinishReason> reason,
                   sequence.take(sample, *parts_.tokenizer));
  request.note_token(sequence, now_, step_read_bytes_);
  metrics_.count_token(gap, /*first=*/sequence.generated_tokens() == 1);
  ++generated_tokens_;
  if (reason) {
    end_choice(request, sequence, *reason);
  } else {
    request.send_text(sequence);
  }
  return {};
}

void Engine::Impl::fail_batch(const Error& error) {
  log_error(str_cat("a step of ", batch_.rows.size(), " rows failed: ", error.message));
  for (const ScheduledSequence& entry : scheduled_)
    if (!entry.request->ended()) fail_request(*entry.request, error);
}

// ---- ends

// Blocks go back, or the place in the queue. Rows of an unfinished step are forgotten first.
void Engine::Impl::give_back(ActiveRequest& request, Sequence& sequence) {
  if (!sequence.holds_blocks()) {
    queue_.remove(request.request().tenant, sequence);
    return;
  }
  stop_running(request, sequence);
  if (auto answer = sequence.take_for_idle()) {
    answer->tokens.assign(sequence.tokens().begin(),
                          sequence.tokens().begin() + sequence.computed());
    idle_.add(std::move(*answer));
  }
}

void Engine::Impl::stop_running(const ActiveRequest& request, Sequence& sequence) {
  if (request.publishes()) ledger_.rollback(sequence.id());
  ledger_.release(sequence.id(), now_);
  sequence.blocks_given_back();
  std::erase_if(running_, [&](const Running& entry) { return entry.sequence == &sequence; });
  admit_again_ = true;
}

void Engine::Impl::end_choice(ActiveRequest& request, Sequence& sequence, FinishReason reason) {
  sequence.end(reason);
  give_back(request, sequence);
  if (!request.embeds()) request.send_choice_finished(sequence, reason);
  if (!request.all_choices_ended()) return;
  // A choice that was cut short speaks for the whole request.
  FinishReason whole = request.first_choice().finish_reason();
  for (const auto& choice : request.choices())
    if (choice->finish_reason() == FinishReason::kCancelled ||
        choice->finish_reason() == FinishReason::kDeadline)
      whole = choice->finish_reason();
  Result<void> finished = request.finish(whole);
  if (!finished) request.fail(finished.error());
  close_request(request);
}

void Engine::Impl::end_open_choices(ActiveRequest& request, FinishReason reason) {
  for (auto& choice : request.choices())
    if (!choice->ended()) end_choice(request, *choice, reason);
}

void Engine::Impl::fail_request(ActiveRequest& request, Error error) {
  for (auto& choice : request.choices()) {
    if (choice->ended()) continue;
    choice->end(FinishReason::kError);
    give_back(request, *choice);
  }
  request.fail(std::move(error));
  close_request(request);
}

void Engine::Impl::close_request(ActiveRequest& request) {
  metrics_.count_end(request, now_);
  count_ended_kv(request);
  if (!request.was_admitted()) inbox_.left_waiting(request.request());
  inbox_.ended(request.id());
  if (last_end_at_ >= 0) end_gap_s_ += 0.2 * (to_seconds(now_ - last_end_at_) - end_gap_s_);
  last_end_at_ = now_;
  const auto found = requests_.find(to_int(request.id()));
  ended_.push_back(std::move(found->second));
  requests_.erase(found);
}

}  // namespace refrain::engine
