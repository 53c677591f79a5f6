// The scheduler alone: decodes first, shares of prompts, nobody starves (O-38).
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <numeric>

namespace refrain::engine {
namespace {

Runnable decode() {
  return Runnable{.pending_rows = 1, .decoding = true};
}
Runnable prompt(std::uint32_t rows, std::uint64_t age) {
  return Runnable{.pending_rows = rows, .age_order = age};
}

// Rows per runnable.
std::vector<std::uint32_t> rows_of(const std::vector<Runnable>& runnables, std::uint32_t budget) {
  std::vector<std::uint32_t> rows(runnables.size(), 0);
  for (const Share& share : schedule(runnables, budget)) rows[share.runnable] = share.rows;
  return rows;
}

TEST(Scheduler, DecodesGoFirstAndAPromptGetsTheRest) {
  const std::vector<Runnable> runnables = {prompt(6000, 1), decode(), decode()};
  EXPECT_EQ(schedule(runnables, 64), (std::vector<Share>{{1, 1}, {2, 1}, {0, 62}}));
}

TEST(Scheduler, ALongPromptSharesWithShortOnes) {
  const std::vector<Runnable> runnables = {prompt(6000, 1), prompt(300, 2), prompt(10, 3),
                                           prompt(20, 4)};
  // Half to the oldest; then 10, 20 and what is left of the other half.
  EXPECT_EQ(rows_of(runnables, 256), (std::vector<std::uint32_t>{128, 98, 10, 20}));
}

TEST(Scheduler, WhatShortPromptsDoNotNeedTheOldestGets) {
  const std::vector<Runnable> runnables = {prompt(6000, 1), prompt(10, 2)};
  EXPECT_EQ(rows_of(runnables, 256), (std::vector<std::uint32_t>{246, 10}));
}

TEST(Scheduler, TheOldestGetsOnHoweverManyShortOnesCome) {
  std::vector<Runnable> runnables = {prompt(6000, 1)};
  for (std::uint64_t age = 2; age < 200; ++age) runnables.push_back(prompt(50, age));
  EXPECT_EQ(rows_of(runnables, 100).front(), 50U);
}

TEST(Scheduler, MoreDecodesThanBudgetTakeTurns) {
  std::vector<Runnable> runnables(10, decode());
  std::vector<std::uint32_t> served(10, 0);
  std::uint64_t turn = 0;
  for (int step = 0; step < 30; ++step) {
    const std::vector<Share> shares = schedule(runnables, 4);
    EXPECT_EQ(shares.size(), 4U);
    for (const Share& share : shares) {
      EXPECT_EQ(share.rows, 1U);
      runnables[share.runnable].last_turn = ++turn;
      ++served[share.runnable];
    }
  }
  for (const std::uint32_t count : served) EXPECT_EQ(count, 12U);
}

TEST(Scheduler, DecodesThatFillTheBudgetLeaveAnEighthToPrompts) {
  std::vector<Runnable> runnables(64, decode());
  runnables.push_back(prompt(100, 1));
  const std::vector<std::uint32_t> rows = rows_of(runnables, 64);
  EXPECT_EQ(rows.back(), 8U);
  EXPECT_EQ(std::accumulate(rows.begin(), rows.end(), 0U), 64U);
}

TEST(Scheduler, PromptsThatWantLogprobsGetFewRowsPerStep) {
  Runnable scored = prompt(500, 1);
  scored.scores_prompt = true;
  const std::vector<Runnable> runnables = {scored, scored, prompt(500, 3)};
  const std::vector<std::uint32_t> rows = rows_of(runnables, 256);
  EXPECT_EQ(rows[0] + rows[1], kMaxScoredRows);
  EXPECT_EQ(rows[2], 256U - kMaxScoredRows);
}

TEST(Scheduler, SomethingPendingIsAlwaysServed) {
  for (std::uint32_t budget = 1; budget < 5; ++budget) {
    EXPECT_GT(rows_of(std::vector<Runnable>{prompt(9, 1)}, budget)[0], 0U);
    EXPECT_GT(rows_of(std::vector<Runnable>{decode()}, budget)[0], 0U);
  }
  EXPECT_TRUE(schedule({}, 8).empty());
}

}  // namespace
}  // namespace refrain::engine
