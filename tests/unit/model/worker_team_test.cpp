// WorkerTeam: every task runs once, whatever the number of threads and whatever they were doing.
#include "model/worker_team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <vector>

namespace refrain::model {
namespace {

TEST(WorkerTeam, RunsEveryTaskOnceAndReturnsWhenAllHaveEnded) {
  for (const std::uint32_t threads : {1U, 2U, 3U, 7U}) {
    auto team = WorkerTeam::create(threads);
    ASSERT_TRUE(team.ok());
    EXPECT_EQ((*team)->thread_count(), threads);
    for (std::uint32_t step = 0; step < 3000; ++step) {
      const std::uint32_t count = step % 41;
      // Plain integers: two runs of one task, or one still running afterwards, would be a data
      // race.
      std::vector<std::uint32_t> runs(count, 0);
      auto task = [&](std::uint32_t index, std::uint32_t thread) {
        EXPECT_LT(thread, threads);
        ++runs[index];
      };
      (*team)->run(count, task);
      for (const std::uint32_t n : runs) ASSERT_EQ(n, 1U) << "step " << step;
    }
  }
}

TEST(WorkerTeam, SleepersWakeForTheNextStep) {
  auto team = WorkerTeam::create(3);
  ASSERT_TRUE(team.ok());
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));  // long enough to fall asleep
    // The tasks wait for each other, so that the step ends only if all three threads take part.
    std::atomic<std::uint32_t> present = 0;
    auto task = [&](std::uint32_t, std::uint32_t) {
      present.fetch_add(1);
      while (present.load() < 3) std::this_thread::yield();
    };
    (*team)->run(3, task);
    EXPECT_EQ(present.load(), 3U);
  }
}

TEST(WorkerTeam, EndsWhileOthersSleepSpinOrFinishAStep) {
  for (int round = 0; round < 400; ++round) {
    auto team = WorkerTeam::create(4);
    ASSERT_TRUE(team.ok());
    auto task = [](std::uint32_t, std::uint32_t) {};
    (*team)->run(static_cast<std::uint32_t>(round % 7), task);  // its end races with the team's
    if (round % 20 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace
}  // namespace refrain::model
