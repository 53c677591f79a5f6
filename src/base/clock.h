// Clock: the only source of time for engine and serve; kv gets plain `Tick` values. Tests pass a
// ManualClock, so no test sleeps. Any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace refrain {

// Nanoseconds since an arbitrary start; never goes back.
using Tick = std::int64_t;

constexpr Tick kMillisecond = 1'000'000;
constexpr Tick kSecond = 1'000'000'000;
constexpr double to_seconds(Tick ticks) { return static_cast<double>(ticks) * 1e-9; }
constexpr double to_milliseconds(Tick ticks) { return static_cast<double>(ticks) * 1e-6; }

// Seconds of the calendar, for what people read; may go back.
inline std::int64_t unix_now_s() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Tick now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  Tick now() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

class ManualClock final : public Clock {
 public:
  Tick now() const override { return now_.load(); }
  void advance(Tick ticks) { now_.fetch_add(ticks); }

 private:
  std::atomic<Tick> now_{0};
};

}  // namespace refrain
