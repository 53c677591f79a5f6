// Halves the threads when crowded, doubles them after a pause that grows with each failure.
#include "model/thread_governor.h"

#include <algorithm>

namespace refrain::model {
namespace {

// Below this share of the processor time that the threads could have had, they were crowded out.
constexpr double kCrowdedShare = 0.85;
// Shorter graphs say nothing: waking the threads takes a noticeable part of them.
constexpr std::int64_t kJudgedWallNs = 2'000'000;
constexpr std::uint32_t kPauseGraphsMin = 2;
constexpr std::uint32_t kPauseGraphsMax = 128;

}  // namespace

void ThreadGovernor::record(std::int64_t wall_ns, std::int64_t cpu_ns) {
  const double possible = static_cast<double>(wall_ns) * current_;
  const bool crowded = current_ > 1 && wall_ns >= kJudgedWallNs &&
                       static_cast<double>(cpu_ns) < kCrowdedShare * possible;
  if (crowded) {
    current_ /= 2;
    pause_graphs_ = next_pause_graphs_;
    next_pause_graphs_ = std::min(next_pause_graphs_ * 2, kPauseGraphsMax);
    return;
  }
  if (current_ == maximum_) {
    next_pause_graphs_ = std::max(next_pause_graphs_ / 2, kPauseGraphsMin);
  } else if (pause_graphs_ > 0) {
    --pause_graphs_;
  } else {
    current_ = std::min(current_ * 2, maximum_);
  }
}

}  // namespace refrain::model
