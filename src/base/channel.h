// Channel<T>: a bounded queue between threads; the only way that network threads and the engine
// thread meet. Any number of producers and consumers. Example:
//
//   Channel<Command> inbox(256);
//   if (!inbox.try_push(command)) return Error{Code::kQueueFull, "..."};   // never blocks
//   while (auto command = inbox.try_pop()) handle(*command);
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "base/check.h"

namespace refrain {

template <typename T>
class Channel {
 public:
  explicit Channel(std::size_t capacity) : capacity_(capacity) {
    CHECK(capacity > 0, "a channel holds at least one item");
  }

  // False when full or closed; `item` is then left untouched.
  bool try_push(T&& item) {
    {
      std::lock_guard lock(mutex_);
      if (closed_ || items_.size() >= capacity_) return false;
      items_.push_back(std::move(item));
    }
    filled_.notify_one();
    return true;
  }

  // The oldest item, or nothing when there is none now.
  std::optional<T> try_pop() {
    std::lock_guard lock(mutex_);
    return take_front();
  }

  // Waits for an item; nothing once the channel is closed and empty.
  std::optional<T> pop() {
    std::unique_lock lock(mutex_);
    filled_.wait(lock, [this] { return closed_ || !items_.empty(); });
    return take_front();
  }

  // No more pushes; waiting consumers wake up.
  void close() {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    filled_.notify_all();
  }

  std::size_t size() const {
    std::lock_guard lock(mutex_);
    return items_.size();
  }
  std::size_t capacity() const { return capacity_; }

 private:
  std::optional<T> take_front() {
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    return item;
  }

  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<T> items_;
  bool closed_ = false;
};

}  // namespace refrain
