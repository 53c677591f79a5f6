// The scheduler alone: decodes first, shares of prompts and of the two classes, nobody starves
// (O-38, B6).
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace refrain::engine {
namespace {

Runnable decode() {
  return Runnable{.pending_rows = 1, .decoding = true};
}
Runnable prompt(std::uint32_t rows, std::uint64_t age) {
  return Runnable{.pending_rows = rows, .age_order = age};
}

std::vector<Share> schedule(const std::vector<Runnable>& runnables, std::uint32_t budget) {
  return Scheduler({.budget = budget}).next(runnables);
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

// ---- two classes (B6)

Runnable long_prompt(std::uint32_t rows, std::uint64_t age, std::uint32_t depth = 0) {
  return Runnable{.pending_rows = rows, .depth = depth, .is_long = true, .age_order = age};
}

std::vector<std::uint32_t> next_rows(Scheduler& scheduler, const std::vector<Runnable>& runnables) {
  std::vector<std::uint32_t> rows(runnables.size(), 0);
  for (const Share& share : scheduler.next(runnables)) rows[share.runnable] = share.rows;
  return rows;
}

TEST(ScheduledClasses, CostGrowsWithTheContextInFront) {
  EXPECT_EQ(rows_cost(100, 5000, 0), 100);
  EXPECT_EQ(rows_within(100, 5000, 0), 100U);
  EXPECT_DOUBLE_EQ(rows_cost(100, 1950, 1000), 100 * (1 + 2.0));
  for (const std::uint32_t depth : {0U, 700U, 9000U})
    for (const std::uint32_t rows : {1U, 8U, 200U})
      EXPECT_EQ(rows_within(rows_cost(rows, depth, 1500) + 1e-6, depth, 1500), rows);
}

TEST(ScheduledClasses, AShortPromptGoesWholeBeforeALongOne) {
  Scheduler scheduler({.budget = 256, .long_percent = 50});
  // One class would give the older one 128 rows and let the short one wait for a second step.
  EXPECT_EQ(next_rows(scheduler, {long_prompt(7000, 1), prompt(200, 2)}),
            (std::vector<std::uint32_t>{56, 200}));
}

TEST(ScheduledClasses, WhileShortOnesAreAboutALongPromptHasItsShareByCost) {
  Scheduler scheduler({.budget = 256, .long_percent = 50, .attention_unit_tokens = 1000});
  // Behind 3,000 tokens a row costs four.
  const std::vector<std::uint32_t> rows =
      next_rows(scheduler, {long_prompt(4000, 1, 3000), decode()});
  EXPECT_EQ(rows, (std::vector<std::uint32_t>{31, 1}));
  EXPECT_LE(rows_cost(31, 3000, 1000), 128);
  EXPECT_GT(rows_cost(32, 3000, 1000), 128);
}

TEST(ScheduledClasses, ALongPromptAloneHasTheWholeStep) {
  Scheduler scheduler({.budget = 256, .long_percent = 50, .attention_unit_tokens = 1000});
  EXPECT_EQ(next_rows(scheduler, {long_prompt(4000, 1, 3000)}).front(), 256U);
  // A short one may come back soon: not at once again.
  next_rows(scheduler, {long_prompt(4000, 1, 3000), decode()});
  std::uint32_t steps = 0;
  while (next_rows(scheduler, {long_prompt(4000, 1, 3000)}).front() < 256) ++steps;
  EXPECT_EQ(steps, Scheduler::kShortMemorySteps - 1);
}

TEST(ScheduledClasses, NeitherClassStarvesTheOtherHoweverManyCome) {
  for (const std::uint32_t percent : {10U, 25U, 50U, 75U}) {
    Scheduler scheduler({.budget = 200, .long_percent = percent});
    std::vector<Runnable> runnables = {long_prompt(100'000, 1), long_prompt(100'000, 2)};
    for (std::uint64_t age = 3; age < 40; ++age) runnables.push_back(prompt(1000, age));
    double of_long = 0, of_short = 0;
    for (int step = 0; step < 200; ++step) {
      const std::vector<std::uint32_t> rows = next_rows(scheduler, runnables);
      of_long += rows[0] + rows[1];
      of_short += std::accumulate(rows.begin() + 2, rows.end(), 0.0);
    }
    EXPECT_EQ(of_long + of_short, 200 * 200);
    // At most half of what is left goes to long prompts while both wait.
    EXPECT_NEAR(of_long / 40'000, std::min(percent, 50U) / 100.0, 0.03) << percent << " %";
  }
}

TEST(ScheduledClasses, ManyLongPromptsCostNoMoreThanOne) {
  Scheduler scheduler({.budget = 256, .long_percent = 25});
  std::vector<Runnable> runnables = {decode()};
  for (std::uint64_t age = 1; age < 20; ++age) runnables.push_back(long_prompt(5000, age));
  const std::vector<std::uint32_t> rows = next_rows(scheduler, runnables);
  EXPECT_EQ(std::accumulate(rows.begin() + 1, rows.end(), 0U), 64U);
  EXPECT_GE(rows[1], 32U) << "the oldest gets on";
}

TEST(ScheduledClasses, TheEndOfALongPromptGoesLikeAShortOne) {
  Scheduler scheduler({.budget = 256, .long_percent = 25});
  EXPECT_EQ(next_rows(scheduler, {long_prompt(60, 1, 7000), decode()}),
            (std::vector<std::uint32_t>{60, 1}));
}

TEST(ScheduledClasses, DeepPromptsGetSomeRowsEvenSo) {
  Scheduler scheduler({.budget = 64, .long_percent = 1, .attention_unit_tokens = 100});
  EXPECT_EQ(next_rows(scheduler, {long_prompt(500, 1, 100'000), decode()}),
            (std::vector<std::uint32_t>{Scheduler::kMinLongRows, 1}));
}

TEST(ScheduledClasses, AThrottledStreamRunsInEverySecondStepWhileOthersDo) {
  Scheduler scheduler({.budget = 64});
  Runnable throttled = decode();
  throttled.throttled = true;
  int served = 0;
  for (int step = 0; step < 10; ++step) {
    const std::vector<std::uint32_t> rows = next_rows(scheduler, {throttled, decode()});
    served += static_cast<int>(rows[0]);
    EXPECT_EQ(rows[1], 1U);
  }
  EXPECT_EQ(served, 5);
  for (int step = 0; step < 4; ++step) EXPECT_EQ(next_rows(scheduler, {throttled})[0], 1U);
}

// The off switch: a limit of 100 % is one class, whatever is long.
TEST(ScheduledClasses, WithoutALimitLongOnesAreLikeAnyOther) {
  Scheduler one({.budget = 256, .long_percent = 100, .attention_unit_tokens = 500});
  const std::vector<Runnable> marked = {long_prompt(6000, 1, 900), prompt(300, 2), prompt(10, 3)};
  std::vector<Runnable> plain = marked;
  plain.front().is_long = false;
  for (int step = 0; step < 5; ++step) EXPECT_EQ(one.next(marked), schedule(plain, 256));
}

}  // namespace
}  // namespace refrain::engine
