// Traces and their replay through a real ledger, against hits counted by hand.
#include "cli/trace_replay.h"

#include <gtest/gtest.h>

#include "base/str.h"

namespace refrain::cli {
namespace {

using kv::EvictionPolicy;

std::vector<TraceRequest> trace_of(const std::vector<std::vector<std::uint32_t>>& prompts) {
  std::vector<TraceRequest> trace;
  for (const auto& ids : prompts)
    trace.push_back({.at = static_cast<Tick>(trace.size() + 1) * kSecond, .ids = ids});
  return trace;
}

TEST(ParseTrace, ReadsTimesAndIdsAndIgnoresTheRest) {
  const auto trace = parse_trace(
      "{\"timestamp\": 0, \"input_length\": 700, \"output_length\": 5, \"hash_ids\": [0, 7]}\n\n"
      "{\"timestamp\": 3000, \"hash_ids\": [0]}\n");
  ASSERT_TRUE(trace.ok());
  ASSERT_EQ(trace->size(), 2U);
  EXPECT_EQ(trace->front().ids, (std::vector<std::uint32_t>{0, 7}));
  EXPECT_EQ(trace->back().at, 3 * kSecond);
}

TEST(ParseTrace, NamesTheLineThatIsWrong) {
  const std::string good = "{\"timestamp\": 5, \"hash_ids\": [1]}\n";
  for (const std::string bad :
       {"x", "[1]", "{\"timestamp\": 5}", "{\"hash_ids\": [1]}",
        "{\"timestamp\": -1, \"hash_ids\": [1]}", "{\"timestamp\": 5, \"hash_ids\": []}",
        "{\"timestamp\": 5, \"hash_ids\": [1.5]}",
        "{\"timestamp\": 5, \"hash_ids\": [99999999999]}",
        "{\"timestamp\": 4, \"hash_ids\": [1]}"}) {
    const auto trace = parse_trace(good + bad);
    ASSERT_FALSE(trace.ok()) << bad;
    EXPECT_NE(trace.error().message.find("line 2 of the trace"), std::string::npos);
  }
  EXPECT_FALSE(parse_trace("\n").ok());
}

TEST(Replay, CountsBlocksAndTokensFoundBehindTheSamePrefix) {
  const auto trace = trace_of({{1, 2, 3}, {1, 2, 4}, {9, 2, 3}, {1, 2, 3}});
  const ReplayFigures figures = replay(trace, 0, EvictionPolicy::kLru);
  EXPECT_EQ(figures.requests, 4U);
  EXPECT_EQ(figures.blocks, 12U);
  EXPECT_EQ(figures.hit_blocks, 0U + 2 + 0 + 3) << "2 and 3 behind 9 are other context";
  EXPECT_EQ(figures.tokens, 12U * 16);
  EXPECT_EQ(figures.hit_tokens, 2U * 16 + 3 * 16 - 1) << "the last token is computed";
  EXPECT_EQ(figures.evicted_blocks, 0U);
}

TEST(Replay, ASmallPoolGivesUpTheTailsFirst) {
  const auto trace = trace_of({{1, 2, 3}, {1, 2, 4}, {5, 6, 7}, {1, 2, 3}});
  for (const EvictionPolicy policy :
       {EvictionPolicy::kLru, EvictionPolicy::kLfu, EvictionPolicy::kGdsf}) {
    const ReplayFigures figures = replay(trace, 4, policy);
    // 5, 6 and 7 take the places of 3, 4 and 2; then 1 is found.
    EXPECT_EQ(figures.hit_blocks, 2U + 1) << kv::eviction_policy_name(policy);
    EXPECT_EQ(figures.too_long, 0U);
  }
  EXPECT_EQ(replay(trace, 2, EvictionPolicy::kLru).too_long, 4U);
}

TEST(Replay, FrequencyKeepsWhatOneTimersWouldSweepAway) {
  std::vector<std::vector<std::uint32_t>> prompts(5, {1, 2});
  for (std::uint32_t i = 0; i < 4; ++i) prompts.push_back({100 + 2 * i, 101 + 2 * i});
  prompts.push_back({1, 2});
  const auto trace = trace_of(prompts);
  EXPECT_EQ(replay(trace, 4, EvictionPolicy::kLru).hit_blocks, 4U * 2);
  EXPECT_EQ(replay(trace, 4, EvictionPolicy::kLfu).hit_blocks, 5U * 2);
  EXPECT_EQ(replay(trace, 4, EvictionPolicy::kGdsf).hit_blocks, 5U * 2);
  EXPECT_EQ(replay(trace, 0, EvictionPolicy::kLru).hit_blocks, 5U * 2);
}

TEST(Replay, FadingFrequencyFollowsWhenWhatIsPopularChanges) {
  // 1 and 2 are popular; then 11 and 12 in turn with one-timers. Under lfu these four blocks of a
  // pool stay with the old fame until the new one has as many uses.
  std::vector<std::vector<std::uint32_t>> prompts(20, {1, 2});
  for (std::uint32_t i = 0; i < 30; ++i) {
    prompts.push_back({11, 12});
    prompts.push_back({1000 + i, 2000 + i});
  }
  const auto trace = trace_of(prompts);
  const std::uint64_t fading = replay(trace, 4, EvictionPolicy::kGdsf).hit_blocks;
  const std::uint64_t lasting = replay(trace, 4, EvictionPolicy::kLfu).hit_blocks;
  EXPECT_GT(fading, lasting);
  EXPECT_LE(fading, replay(trace, 0, EvictionPolicy::kLru).hit_blocks);
}

}  // namespace
}  // namespace refrain::cli
