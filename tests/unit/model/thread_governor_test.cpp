// The number of compute threads follows what the machine leaves to this process.
#include "model/thread_governor.h"

#include <gtest/gtest.h>

namespace refrain::model {
namespace {

constexpr std::int64_t kMs = 1'000'000;

// One graph of 10 ms in which every thread got `share` of its core.
void run_graph(ThreadGovernor& governor, double share) {
  governor.record(10 * kMs, static_cast<std::int64_t>(share * 10 * kMs * governor.thread_count()));
}

TEST(ThreadGovernor, KeepsAllThreadsOnAnIdleMachine) {
  ThreadGovernor governor(8);
  for (int i = 0; i < 100; ++i) {
    run_graph(governor, 0.98);
    EXPECT_EQ(governor.thread_count(), 8U);
  }
}

TEST(ThreadGovernor, FallsToOneThreadWhenCrowdedAndTriesAgainEverMoreRarely) {
  ThreadGovernor governor(2);
  int tries = 0;
  for (int i = 0; i < 1000; ++i) {
    if (governor.thread_count() > 1) ++tries;
    run_graph(governor, governor.thread_count() > 1 ? 0.5 : 0.7);
  }
  EXPECT_GE(tries, 5);
  EXPECT_LE(tries, 20);
}

TEST(ThreadGovernor, ComesBackToAllThreadsOnceTheMachineIsFree) {
  ThreadGovernor governor(8);
  for (int i = 0; i < 500; ++i) run_graph(governor, 0.4);
  for (int i = 0; i < 200; ++i) run_graph(governor, 0.99);
  EXPECT_EQ(governor.thread_count(), 8U);
}

TEST(ThreadGovernor, ShortGraphsAreNotJudged) {
  ThreadGovernor governor(2);
  for (int i = 0; i < 10; ++i) governor.record(kMs, kMs / 2);
  EXPECT_EQ(governor.thread_count(), 2U);
}

TEST(ThreadGovernor, OneThreadStaysOneThread) {
  ThreadGovernor governor(1);
  for (int i = 0; i < 10; ++i) run_graph(governor, 0.3);
  EXPECT_EQ(governor.thread_count(), 1U);
}

}  // namespace
}  // namespace refrain::model
