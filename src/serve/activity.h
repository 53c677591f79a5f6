// Activity: counts what is going on, so that a shutdown can wait for it. Any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace refrain::serve {

class Activity {
 public:
  // One thing going on, from construction to destruction.
  class Mark {
   public:
    explicit Mark(Activity& activity) : activity_(activity) { activity_.change(1); }
    ~Mark() { activity_.change(-1); }
    Mark(const Mark&) = delete;
    Mark& operator=(const Mark&) = delete;

   private:
    Activity& activity_;
  };

  // False if something still goes on after that time.
  bool wait_until_quiet(std::uint32_t timeout_ms) {
    std::unique_lock lock(mutex_);
    return quiet_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                           [this] { return count_ == 0; });
  }

 private:
  void change(int by) {
    std::lock_guard lock(mutex_);
    count_ += by;
    if (count_ == 0) quiet_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable quiet_;
  int count_ = 0;
};

}  // namespace refrain::serve
