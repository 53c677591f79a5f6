// ByteBudget: a bound on the bytes that all request bodies being read may take together, so that
// many clients with big bodies cannot take the machine's memory. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace refrain::serve {

class ByteBudget {
 public:
  explicit ByteBudget(std::uint64_t limit) : limit_(limit) {}

  // Move-only; gives its bytes back when destroyed. Empty when there was no room.
  class Share {
   public:
    Share() = default;
    Share(ByteBudget* budget, std::uint64_t bytes) : budget_(budget), bytes_(bytes) {}
    Share(Share&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)), bytes_(other.bytes_) {}
    Share& operator=(Share&&) = delete;
    ~Share() {
      if (budget_ != nullptr) budget_->used_.fetch_sub(bytes_);
    }
    explicit operator bool() const { return budget_ != nullptr; }

   private:
    ByteBudget* budget_ = nullptr;
    std::uint64_t bytes_ = 0;
  };

  Share take(std::uint64_t bytes) {
    std::uint64_t used = used_.load();
    while (used + bytes <= limit_)
      if (used_.compare_exchange_weak(used, used + bytes)) return Share(this, bytes);
    return {};
  }
  std::uint64_t used() const { return used_.load(); }

 private:
  const std::uint64_t limit_;
  std::atomic<std::uint64_t> used_{0};
};

}  // namespace refrain::serve
