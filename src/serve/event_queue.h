// EventQueue: where the engine thread leaves the events of one call's requests for the connection
// that waits for them; EventStream is the engine's end of it. Bounded by what a request may
// generate (max_tokens * choices and a few); the engine never waits here.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/request.h"

namespace refrain::serve {

struct QueuedEvent {
  std::uint32_t prompt = 0;  // which engine request of the call
  engine::TokenEvent event;
};

class EventQueue {
 public:
  // `notify` is called by the engine thread when the queue stops being empty; it must not block.
  explicit EventQueue(std::function<void()> notify) : notify_(std::move(notify)) {}

  void push(std::uint32_t prompt, engine::TokenEvent event) {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    events_.push_back(QueuedEvent{prompt, std::move(event)});
    if (events_.size() == 1 && notify_) notify_();
  }

  // Everything that came since the last call.
  std::vector<QueuedEvent> take() {
    std::lock_guard lock(mutex_);
    return std::exchange(events_, {});
  }

  // Nobody listens any more; after this, notify is never called again.
  void close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    notify_ = nullptr;
    events_.clear();
  }

 private:
  std::mutex mutex_;
  std::function<void()> notify_;
  std::vector<QueuedEvent> events_;
  bool closed_ = false;
};

class EventStream final : public engine::OutputStream {
 public:
  EventStream(std::shared_ptr<EventQueue> queue, std::uint32_t prompt)
      : queue_(std::move(queue)), prompt_(prompt) {}
  void on_event(engine::TokenEvent event) override { queue_->push(prompt_, std::move(event)); }

 private:
  const std::shared_ptr<EventQueue> queue_;
  const std::uint32_t prompt_;
};

}  // namespace refrain::serve
