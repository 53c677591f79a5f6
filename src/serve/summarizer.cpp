// See summarizer.h.
#include "serve/summarizer.h"

#include <algorithm>

namespace refrain::serve {

using engine::TokenEvent;

Summarizer::Summarizer(Submitter& engine, metrics::Registry& metrics)
    : engine_(engine),
      metrics_(metrics),
      events_(std::make_shared<EventQueue>([this] {
        std::lock_guard lock(mutex_);
        has_events_ = true;
        wake_.notify_one();
      })),
      thread_([this] { run(); }) {}

Summarizer::~Summarizer() {
  stop();
}

void Summarizer::post(std::unique_ptr<SummaryJob> job) {
  std::lock_guard lock(mutex_);
  if (stopping_ || waiting_.size() >= kMaxWaiting) {
    metrics_.add_labeled(metrics::Metric::kContextSummaries, "refused", 1);
    return;
  }
  waiting_.push_back(std::move(job));
  wake_.notify_one();
}

void Summarizer::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

bool Summarizer::has_free_slot() const {
  return std::any_of(slots_.begin(), slots_.end(),
                     [](const Slot& slot) { return slot.job == nullptr; });
}

void Summarizer::run() {
  for (;;) {
    std::unique_ptr<SummaryJob> job;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] {
        return stopping_ || has_events_ || (!waiting_.empty() && has_free_slot());
      });
      if (stopping_) break;
      has_events_ = false;
      if (!waiting_.empty() && has_free_slot()) {
        job = std::move(waiting_.front());
        waiting_.pop_front();
      }
    }
    if (job != nullptr) {
      const auto free = std::find_if(slots_.begin(), slots_.end(),
                                     [](const Slot& slot) { return slot.job == nullptr; });
      free->job = std::move(job);
      go_on(static_cast<std::size_t>(free - slots_.begin()));
    }
    take_events();
  }
  events_->close();
  for (Slot& slot : slots_) {
    if (slot.job == nullptr) continue;
    engine_.cancel(slot.request);
    slot.job.reset();
  }
}

void Summarizer::take_events() {
  for (QueuedEvent& queued : events_->take()) {
    SummaryJob& job = *slots_[queued.prompt].job;
    const TokenEvent::Kind kind = queued.event.kind;
    job.take(std::move(queued.event));
    if (kind == TokenEvent::Kind::kFinished || kind == TokenEvent::Kind::kError)
      go_on(queued.prompt);
  }
}

// Submits the job's next request, or ends it. What gives way takes no place in the queue, so an
// engine refuses it only when it shuts down.
void Summarizer::go_on(std::size_t index) {
  Slot& slot = slots_[index];
  if (std::optional<engine::GenerateRequest> request = slot.job->next()) {
    const Result<RequestId> id =
        engine_.submit(std::move(*request),
                       std::make_shared<EventStream>(events_, static_cast<std::uint32_t>(index)),
                       engine::WhenFull::kTryLater);
    if (id.ok()) {
      slot.request = *id;
      return;
    }
    slot.job->fail();
  }
  const SummaryJob& job = *slot.job;
  metrics_.add_labeled(metrics::Metric::kContextSummaries, job.succeeded() ? "done" : "failed", 1);
  if (job.succeeded())
    metrics_.add(metrics::Metric::kContextTokensSummarized, job.replaced_tokens());
  slot.job.reset();
}

}  // namespace refrain::serve
