// Two classes of requests, and those out of line: what is long, what long ones may hold together,
// alarms and throttling (B6).
#include "engine/isolation.h"

#include <gtest/gtest.h>

#include "support/engine_fixture.h"

namespace refrain::engine {
namespace {

using metrics::Metric;
using test::BenchOptions;
using test::EngineBench;
using test::greedy;
using test::some_tokens;

constexpr IsolationOptions kOptions = {
    .long_tokens = 1000, .step_percent = 50, .pool_percent = 75, .alarm_factor = 4};

GenerateRequest request_of(std::uint32_t prompt_tokens, std::uint32_t max_tokens) {
  return greedy(some_tokens(prompt_tokens), max_tokens);
}

TEST(Isolation, ExpectedContextIsThePromptAndAUsualAnswer) {
  Isolation isolation(kOptions);
  EXPECT_EQ(isolation.expected_tokens(request_of(100, 50)), 150U);
  EXPECT_EQ(isolation.expected_tokens(request_of(100, 2048)), 100U + Isolation::kFirstAnswerTokens);
  for (std::uint64_t i = 0; i < Isolation::kMinEnded; ++i) isolation.note_ended(500, 40, 5);
  EXPECT_EQ(isolation.expected_tokens(request_of(100, 2048)), 140U);
  GenerateRequest several = request_of(100, 2048);
  several.choice_count = 3;
  EXPECT_EQ(isolation.expected_tokens(several), 220U);
  several.task = Task::kEmbed;
  EXPECT_EQ(isolation.expected_tokens(several), 100U);
  EXPECT_FALSE(isolation.is_long(request_of(960, 2048)));
  EXPECT_TRUE(isolation.is_long(request_of(961, 2048)));
  EXPECT_FALSE(Isolation({}).is_long(request_of(9000, 2048))) << "off: one class";
}

TEST(Isolation, TheLongPartIsNeverNothing) {
  EXPECT_EQ(Isolation(kOptions).long_part(256), 192U);
  EXPECT_EQ(Isolation(kOptions).long_part(1), 1U);
}

TEST(Isolation, ALongRequestIsOutOfLineByWhatOthersHeld) {
  Isolation isolation(kOptions);
  for (std::uint64_t i = 0; i + 1 < Isolation::kMinEnded; ++i) isolation.note_ended(300, 40, 5);
  EXPECT_EQ(isolation.judge({.kv_tokens = 5000}, 6000), Alarm::kNone) << "too few have ended";
  isolation.note_ended(300, 40, 5);
  EXPECT_EQ(isolation.judge({.kv_tokens = 1200}, 6000), Alarm::kNone);
  EXPECT_EQ(isolation.judge({.kv_tokens = 1201}, 6000), Alarm::kKv);
  IsolationOptions off = kOptions;
  off.alarm_factor = 0;
  EXPECT_EQ(Isolation(off).judge({.kv_tokens = 100'000}, 100'000), Alarm::kNone);
}

TEST(Isolation, WhoeverSlowsOthersDownIsOutOfLineAndNotTheVictim) {
  Isolation isolation(kOptions);
  for (std::uint64_t i = 0; i < Isolation::kMinEnded; ++i) isolation.note_ended(800, 40, 5);
  EXPECT_EQ(isolation.judge({.kv_tokens = 900, .tpot_ms = 21}, 1500), Alarm::kTpot);
  EXPECT_EQ(isolation.judge({.kv_tokens = 900, .tpot_ms = 19}, 1500), Alarm::kNone);
  EXPECT_EQ(isolation.judge({.kv_tokens = 600, .tpot_ms = 21}, 1500), Alarm::kNone) << "a victim";
  EXPECT_EQ(isolation.judge({.kv_tokens = 900, .tpot_ms = 21}, 900), Alarm::kNone)
      << "there is nobody else";
}

TEST(Isolation, MeansFollow) {
  FollowingMean mean;
  mean.add(2);
  mean.add(4);
  EXPECT_DOUBLE_EQ(mean.value(), 3);
  for (int i = 0; i < 1000; ++i) mean.add(10);
  EXPECT_NEAR(mean.value(), 10, 0.01);
  FollowingGap gap;
  for (std::uint32_t i = 1; i < FollowingGap::kMinGaps; ++i) gap.add(2 * kMillisecond);
  EXPECT_EQ(gap.value_ms(), 0);
  gap.add(2 * kMillisecond);
  EXPECT_DOUBLE_EQ(gap.value_ms(), 2);
}

// ---- in the engine

BenchOptions two_classes() {
  BenchOptions options;
  options.block_count = 64;  // 1,024 tokens
  options.engine.step_token_budget = 64;
  options.engine.isolation = {
      .long_tokens = 200, .step_percent = 50, .pool_percent = 50, .alarm_factor = 4};
  return options;
}

GenerateRequest endless(std::uint32_t prompt_tokens, std::uint32_t max_tokens, std::uint64_t seed) {
  GenerateRequest request = greedy(some_tokens(prompt_tokens, seed), max_tokens);
  request.ignore_eos = true;
  return request;
}

TEST(IsolatedEngine, LongOnesNeverHoldMoreThanTheirPartAndShortOnesPassThem_B6) {
  EngineBench bench(two_classes());
  double most_long = 0;
  bench.executor.on_run = [&](const model::Batch&) {
    bench.clock.advance(kMillisecond);
    most_long = std::max(most_long, bench.metrics.value(Metric::kKvTokensByClass, "long"));
  };
  std::vector<std::shared_ptr<test::RecordedStream>> streams;
  // Each needs 19 of 64 blocks; two would hold 38, above the half.
  for (std::uint64_t i = 0; i < 4; ++i) streams.push_back(bench.submit(endless(280, 20, i + 1)));
  for (std::uint64_t i = 0; i < 30; ++i) streams.push_back(bench.submit(endless(20, 4, 100 + i)));
  bench.engine->start();
  double short_waited_ms = 0, long_waited_ms = 0;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    ASSERT_TRUE(streams[i]->wait());
    EXPECT_FALSE(streams[i]->failed());
    double& waited_ms = i < 4 ? long_waited_ms : short_waited_ms;
    waited_ms = std::max(waited_ms, streams[i]->last().timings.queue_ms);
  }
  EXPECT_LT(short_waited_ms, long_waited_ms / 2) << "nobody waits behind the long ones";
  EXPECT_GT(most_long, 0);
  EXPECT_LE(most_long, 300) << "one at a time";
  bench.expect_clean();
}

TEST(IsolatedEngine, ALongRequestLargerThanThePartIsAdmittedAlone_B6) {
  EngineBench bench(two_classes());
  bench.engine->start();
  const auto stream = bench.run(endless(900, 20, 1));
  EXPECT_FALSE(stream->failed());
  EXPECT_EQ(stream->tokens().size(), 20U);
  bench.expect_clean();
}

TEST(IsolatedEngine, LongOnesOverOneBeginningShareItInTheirPart_B6) {
  EngineBench bench(two_classes());
  bench.engine->start();
  bench.run(endless(400, 2, 1));  // 25 blocks, cached
  double most_running = 0;
  bench.executor.on_run = [&](const model::Batch&) {
    most_running = std::max(most_running, bench.metrics.value(Metric::kRequestsByClass, "long"));
  };
  std::vector<std::shared_ptr<test::RecordedStream>> streams;
  for (int i = 0; i < 3; ++i) streams.push_back(bench.submit(endless(400, 40, 1)));
  for (const auto& stream : streams) ASSERT_TRUE(stream->wait());
  EXPECT_GE(most_running, 2) << "each alone would take 28 of 32 blocks";
  bench.expect_clean();
}

// Steps in which both streams of the test below generate, and those without the throttled one.
struct Turns {
  int together = 0, without_outlier = 0, in_a_row = 0;
  bool before = false;

  void note(const model::Batch& batch) {
    bool outlier = false, other = false;
    for (const model::BatchRow& row : batch.rows) {
      outlier |= row.position >= 250;
      other |= row.position >= 100 && row.position < 220 && batch.rows.size() <= 2;
    }
    if (!other) return;
    together += outlier ? 1 : 0;
    without_outlier += outlier ? 0 : 1;
    in_a_row += outlier && before ? 1 : 0;
    before = outlier;
  }
};

TEST(IsolatedEngine, AnOutlierRaisesOneAlarmAndGivesWayToOthers_B6) {
  BenchOptions options = two_classes();
  options.engine.isolation.long_tokens = 240;
  options.engine.isolation.pool_percent = 90;
  EngineBench bench(options);
  Turns turns;
  bool seen = false;
  bench.executor.on_run = [&](const model::Batch& batch) {
    for (const RequestKv& row : bench.engine->kv_report().requests) {
      if (row.alarm != Alarm::kKv) continue;
      seen = true;
      EXPECT_TRUE(row.is_long);
      EXPECT_TRUE(row.throttled);
      EXPECT_EQ(bench.metrics.value(Metric::kRequestsThrottled), 1);
    }
    if (seen) turns.note(batch);
  };
  std::vector<std::shared_ptr<test::RecordedStream>> usual;
  for (std::uint64_t i = 0; i < Isolation::kMinEnded; ++i)
    usual.push_back(bench.submit(endless(20, 4, 100 + i)));
  const auto outlier = bench.submit(endless(250, 60, 1));
  const auto other = bench.submit(endless(20, 200, 2));
  bench.engine->start();
  ASSERT_TRUE(other->wait());
  ASSERT_TRUE(outlier->wait());
  EXPECT_TRUE(seen);
  EXPECT_GT(turns.together, 10);
  EXPECT_GE(turns.without_outlier, turns.together - 1);
  EXPECT_EQ(turns.in_a_row, 0) << "every second step";
  EXPECT_EQ(outlier->tokens(),
            test::lone_cold_run(test::HashModel(bench.vocabulary_size()), endless(250, 60, 1)))
      << "throttling changes no answer";
  EXPECT_EQ(bench.metrics.value(Metric::kRequestAlarms, "kv"), 1);
  EXPECT_EQ(bench.metrics.value(Metric::kRequestsThrottled), 0);
  bench.expect_clean();
}

TEST(IsolatedEngine, WithoutThrottlingAnAlarmOnlyTells_B6) {
  BenchOptions options = two_classes();
  options.engine.isolation.throttle = false;
  EngineBench bench(options);
  bench.engine->start();
  for (std::uint64_t i = 0; i < Isolation::kMinEnded; ++i) bench.run(endless(20, 4, 100 + i));
  double throttled = 0;
  bench.executor.on_run = [&](const model::Batch&) {
    throttled = std::max(throttled, bench.metrics.value(Metric::kRequestsThrottled));
  };
  bench.run(endless(250, 10, 1));
  EXPECT_EQ(bench.metrics.value(Metric::kRequestAlarms, "kv"), 1);
  EXPECT_EQ(throttled, 0);
  bench.expect_clean();
}

}  // namespace
}  // namespace refrain::engine
