// Isolation: which requests are long, what long ones may hold together, and which request is out of
// line (REQUIREMENTS B6). Plain arithmetic over what requests told when they ended; knows no blocks
// and no clock. Engine thread.
//
//   expected KV = prompt tokens + choices x min(max_tokens, mean answer so far)     long: above
//                                                                                   long_tokens
//   alarm kv    a long request holds more than alarm_factor x the mean peak of those that ended
//   alarm tpot  its tokens take more than alarm_factor x the usual time, and it holds most of all
//               the context that steps read
//
// A request that raised an alarm is throttled: it counts as long, and while others generate it does
// so in every second step only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/clock.h"
#include "engine/request.h"

namespace refrain::engine {

struct IsolationOptions {
  std::uint32_t long_tokens = 0;    // expected KV above which a request is long; 0 = one class
  std::uint32_t step_percent = 50;  // of a step, for long prompts beside short sequences
  std::uint32_t pool_percent = 75;  // of the blocks and places, for all long ones together
  double alarm_factor = 0;          // 0 = no alarms
  bool throttle = true;             // those that raised one
};

enum class Alarm { kNone, kKv, kTpot };
std::string_view alarm_name(Alarm alarm);  // "" for kNone

// A mean that follows: plain over the first 64, then the newest counts a 64th.
class FollowingMean {
 public:
  void add(double value);
  double value() const { return value_; }
  std::uint64_t count() const { return count_; }

 private:
  double value_ = 0;
  std::uint64_t count_ = 0;
};

// Time between tokens lately: the newest gap counts a sixteenth.
class FollowingGap {
 public:
  static constexpr std::uint32_t kMinGaps = 16;
  void add(Tick gap) {
    ++count_;
    value_ms_ += (to_milliseconds(gap) - value_ms_) / std::min(count_, kMinGaps);
  }
  double value_ms() const { return count_ >= kMinGaps ? value_ms_ : 0; }

 private:
  std::uint32_t count_ = 0;
  double value_ms_ = 0;
};

// What one running request is at.
struct RunningLoad {
  std::uint64_t kv_tokens = 0;
  double tpot_ms = 0;  // lately; 0 = not known yet
};

class Isolation {
 public:
  static constexpr std::uint32_t kFirstAnswerTokens = 256;  // expected while few have ended
  static constexpr std::uint64_t kMinEnded = 16;            // before anything is out of line

  explicit Isolation(const IsolationOptions& options) : options_(options) {}

  const IsolationOptions& options() const { return options_; }
  std::uint64_t expected_tokens(const GenerateRequest& request) const;
  bool is_long(const GenerateRequest& request) const;
  // What long choices may hold or take of `all` blocks or places together; at least one. One long
  // choice is always admitted, however large.
  std::uint32_t long_part(std::uint32_t all) const;

  // A request that ran has ended: the most it held, tokens per choice, and its mean time per token
  // (0 = none).
  void note_ended(std::uint64_t peak_tokens, double answer_tokens, double tpot_ms);
  double usual_peak_tokens() const { return peak_tokens_.value(); }
  double usual_tpot_ms() const { return tpot_ms_.value(); }
  // `all_kv_tokens`: of all running requests together.
  Alarm judge(const RunningLoad& load, std::uint64_t all_kv_tokens) const;

 private:
  const IsolationOptions options_;
  FollowingMean peak_tokens_, answer_tokens_, tpot_ms_;
};

}  // namespace refrain::engine
