// Who holds how much of the KV budget, live and over a request's life (B1, B7).
#include <gtest/gtest.h>

#include "engine/kv_use.h"
#include "support/engine_fixture.h"

namespace refrain::engine {
namespace {

using test::BenchOptions;
using test::EngineBench;
using test::greedy;
using test::some_tokens;

TEST(KvUse, peak_and_mean_are_over_time_and_not_over_notes_B7) {
  KvUse use;
  EXPECT_FALSE(use.began());
  EXPECT_EQ(use.mean(), 0);
  use.note(100, 10);
  EXPECT_EQ(use.mean(), 10) << "no time has passed";
  use.note(100, 20);
  use.note(400, 20);  // 300 ticks of 20
  use.note(400, 80);
  use.note(500, 5);  // 100 of 80
  EXPECT_EQ(use.peak(), 80U);
  EXPECT_EQ(use.tokens(), 5U);
  EXPECT_DOUBLE_EQ(use.mean(), (300.0 * 20 + 100 * 80) / 400);
  EXPECT_DOUBLE_EQ(use.age_s(), 400e-9);
}

BenchOptions with_costs() {
  BenchOptions options;
  options.read_cost = {.weight_bytes = 1'000'000, .kv_bytes_per_token = 100};
  return options;
}

TEST(KvReport, an_ended_request_is_counted_and_holds_nothing_B7) {
  EngineBench bench(with_costs());
  bench.engine->start();
  auto request = greedy(some_tokens(40), 8);
  request.ignore_eos = true;
  const auto stream = bench.run(std::move(request));
  const KvReport report = bench.engine->kv_report();
  EXPECT_TRUE(report.requests.empty());
  EXPECT_EQ(report.ended.requests, 1U);
  EXPECT_EQ(report.ended.peak_tokens, 47U) << "the last token never gets a slot";
  EXPECT_EQ(report.ended.sum_of_peak_tokens, 47);
  EXPECT_EQ(bench.metrics.value(metrics::Metric::kLargestRequestKv), 4700);
  EXPECT_EQ(report.decode.steps, 7U) << "the first token comes from the prompt's step";
  // Smoothing begins with a plain mean: weights, and 41 .. 47 tokens.
  EXPECT_NEAR(report.decode.read_bytes, 1'000'000 + 100 * 44, 1e-6);
  EXPECT_EQ(report.decode.rows, 1);
  bench.expect_clean();
}

TEST(KvReport, a_running_request_has_a_row_with_what_it_holds_B1_B7) {
  BenchOptions options = with_costs();
  options.engine.step_token_budget = 16;
  EngineBench bench(options);
  bench.executor.on_run = [&](const model::Batch&) {
    bench.clock.advance(kMillisecond);
    if (bench.executor.run_count != 4)
      return;  // 40 prompt tokens take three steps; this is the first decode
    const KvReport report = bench.engine->kv_report();  // as of the third step
    ASSERT_EQ(report.requests.size(), 1U);
    const RequestKv& row = report.requests.front();
    EXPECT_EQ(row.label, "mine");
    EXPECT_EQ(row.tenant, "alice");
    EXPECT_EQ(row.choices, 1U);
    EXPECT_EQ(row.prompt_tokens, 40U);
    EXPECT_EQ(row.generated_tokens, 1U);
    EXPECT_EQ(row.kv_tokens, 40U);
    EXPECT_EQ(row.kv_blocks, 3U);
    EXPECT_EQ(row.peak_tokens, 40U);
    // A millisecond each of 16, 32 and 40 tokens.
    EXPECT_DOUBLE_EQ(row.mean_tokens, (16.0 + 32 + 40) / 3);
    EXPECT_DOUBLE_EQ(row.age_s, 0.003);
    EXPECT_EQ(row.step_read_bytes, 0) << "one token has no time per token";
    EXPECT_EQ(row.tpot_ms, 0);
  };
  auto request = greedy(some_tokens(40), 8);
  request.ignore_eos = true;
  request.label = "mine";
  request.tenant = "alice";
  const auto stream = bench.submit(std::move(request));
  bench.engine->start();
  ASSERT_TRUE(stream->wait());
  bench.expect_clean();
}

TEST(KvReport, a_request_shows_during_its_first_step_already_B1) {
  EngineBench bench(with_costs());
  bool looked = false;
  bench.executor.on_run = [&](const model::Batch&) {
    if (bench.executor.run_count > 1) return;
    looked = true;
    const KvReport report = bench.engine->kv_report();
    ASSERT_EQ(report.requests.size(), 1U);
    EXPECT_EQ(report.requests.front().kv_tokens, 40U) << "the slots are taken";
    EXPECT_EQ(report.requests.front().generated_tokens, 0U);
    EXPECT_EQ(report.running, 1U);
    EXPECT_EQ(report.blocks.pinned, 3U);
  };
  const auto stream = bench.submit(greedy(some_tokens(40), 2));
  bench.engine->start();
  ASSERT_TRUE(stream->wait());
  EXPECT_TRUE(looked);
  bench.expect_clean();
}

TEST(KvReport, the_fastest_decode_step_is_remembered_B1) {
  EngineBench bench(with_costs());
  bench.executor.on_run = [&](const model::Batch&) {
    // The third step is the fastest: 1,000,000 bytes and 22 tokens of 100 in a millisecond.
    bench.clock.advance(bench.executor.run_count == 3 ? kMillisecond : 4 * kMillisecond);
  };
  auto request = greedy(some_tokens(20), 6);
  request.ignore_eos = true;
  const auto stream = bench.submit(std::move(request));
  bench.engine->start();
  ASSERT_TRUE(stream->wait());
  EXPECT_DOUBLE_EQ(bench.engine->kv_report().decode.best_bytes_per_s, 1'002'200 / 1e-3);
  bench.expect_clean();
}

TEST(KvReport, choices_share_their_prompt_and_own_what_they_generate_B1) {
  BenchOptions options = with_costs();
  EngineBench bench(options);
  std::uint64_t most_tokens = 0, most_blocks = 0;
  std::uint32_t most_choices = 0;
  bench.executor.on_run = [&](const model::Batch&) {
    const KvReport report = bench.engine->kv_report();
    for (const RequestKv& row : report.requests) {
      most_tokens = std::max(most_tokens, row.kv_tokens);
      most_blocks = std::max(most_blocks, row.kv_blocks);
      most_choices = std::max(most_choices, row.choices);
      // What is held can never be more than what is pinned.
      EXPECT_LE(row.kv_blocks, report.blocks.pinned);
    }
  };
  auto request = greedy(some_tokens(64), 20);
  request.choice_count = 3;
  request.ignore_eos = true;
  const auto stream = bench.submit(std::move(request));
  bench.engine->start();
  ASSERT_TRUE(stream->wait());
  EXPECT_EQ(most_choices, 3U);
  // The first choice computed all 64; the others share three whole blocks of it.
  EXPECT_GE(most_tokens, 64U + 2 * 16 + 3 * 15);
  EXPECT_LE(most_tokens, 64U + 2 * 16 + 3 * 20) << "shared blocks count once";
  EXPECT_LE(most_tokens, most_blocks * 16);
  EXPECT_LE(most_blocks, 4U + 3 * 3);
  bench.expect_clean();
}

TEST(KvReport, refused_and_cancelled_requests_leave_no_row) {
  EngineBench bench(with_costs());
  const auto stream = bench.submit(greedy(some_tokens(40), 8));
  bench.engine->cancel(bench.last_id);
  bench.engine->start();
  ASSERT_TRUE(stream->wait());
  const KvReport report = bench.engine->kv_report();
  EXPECT_TRUE(report.requests.empty());
  EXPECT_EQ(report.ended.requests, 0U) << "it never held a block";
  bench.expect_clean();
}

}  // namespace
}  // namespace refrain::engine
