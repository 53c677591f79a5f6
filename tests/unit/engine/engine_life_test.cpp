// Many requests and bad days: fairness, cancelling, deadlines, full queues, failing steps, drain
// and stop, and the figures that must add up (A10, O-16, O-38, O-43, O-44).
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "engine/engine.h"
#include "support/engine_fixture.h"

namespace refrain::test {
namespace {

using Kind = TokenEvent::Kind;

GenerateRequest endless(std::uint32_t prompt, std::uint32_t max_tokens, std::uint64_t seed = 1) {
  GenerateRequest request = greedy(some_tokens(prompt, seed), max_tokens);
  request.ignore_eos = true;
  return request;
}

TEST(EngineLife, AStreamGetsATokenInEveryStepOfALongPrefill) {  // O-38
  EngineBench bench({.block_count = 1024, .engine = {.step_token_budget = 64}});
  std::uint64_t largest_gap = 0, last_step = 0;
  std::vector<std::size_t> rows_per_step;
  std::shared_ptr<RecordedStream> long_prompt, short_prompt;
  std::uint64_t short_done_at = 0, long_done_at = 0;
  bench.executor.on_run = [&](const model::Batch& batch) {
    const std::uint64_t step = bench.executor.run_count;
    rows_per_step.push_back(batch.rows.size());
    if (step == 3) {
      long_prompt = bench.submit(endless(6000, 1, 2));
      short_prompt = bench.submit(endless(20, 1, 3));
    }
    // The stream was admitted first; its rows are the first ones of each batch.
    if (step > 1 && batch.sequences.at(0).length > 10) {
      if (last_step > 0) largest_gap = std::max(largest_gap, step - last_step);
      last_step = step;
    }
    const auto done = [](const auto& stream) {
      return stream != nullptr && stream->last().kind == Kind::kFinished;
    };
    if (short_done_at == 0 && done(short_prompt)) short_done_at = step;
    if (long_done_at == 0 && done(long_prompt)) long_done_at = step;
  };
  auto stream = bench.submit(endless(10, 300));
  bench.engine->start();
  ASSERT_TRUE(stream->wait());
  ASSERT_TRUE(long_prompt->wait());
  EXPECT_EQ(largest_gap, 1U) << "the stream is in every step";
  for (const std::size_t rows : rows_per_step) EXPECT_LE(rows, 64U);
  EXPECT_LE(short_done_at, 7U) << "a short prompt does not wait for the long one";
  EXPECT_GE(long_done_at, 90U);
  bench.expect_clean();
}

TEST(EngineLife, TenantsAreServedInTurns) {
  EngineBench bench({.engine = {.max_running = 1}});
  std::vector<std::shared_ptr<RecordedStream>> greedy_tenant;
  for (std::uint64_t i = 0; i < 10; ++i) {
    GenerateRequest request = endless(10, 3, 100 + i);
    request.tenant = "many";
    greedy_tenant.push_back(bench.submit(request));
  }
  GenerateRequest request = endless(10, 3, 7);
  request.tenant = "one";
  auto single = bench.submit(request);
  std::uint64_t single_done_at = 0;
  bench.executor.on_run = [&](const model::Batch&) {
    if (single_done_at == 0 && single->last().kind == Kind::kFinished)
      single_done_at = bench.executor.run_count;
  };
  bench.engine->start();
  ASSERT_TRUE(single->wait());
  for (auto& stream : greedy_tenant) ASSERT_TRUE(stream->wait());
  // Three steps each: the single request is second although it came last.
  EXPECT_EQ(single_done_at, 7U);
  bench.expect_clean();
}

TEST(EngineLife, NoRequestStarvesAmongTwoHundred) {  // O-38
  EngineBench bench({.block_count = 64, .engine = {.step_token_budget = 32, .max_running = 8}});
  std::vector<std::shared_ptr<RecordedStream>> streams;
  for (std::uint64_t i = 0; i < 200; ++i)
    streams.push_back(bench.submit(endless(i % 20 == 0 ? 500 : 20, 4, i)));
  bench.engine->start();
  for (auto& stream : streams) {
    ASSERT_TRUE(stream->wait());
    EXPECT_EQ(stream->tokens().size(), 4U);
  }
  bench.expect_clean();
}

TEST(EngineLife, CancelledRequestsGiveEverythingBack) {  // O-16
  EngineBench bench({.block_count = 64, .engine = {.step_token_budget = 24, .max_running = 4}});
  bench.engine->start();
  for (int round = 0; round < 40; ++round) {
    std::vector<std::shared_ptr<RecordedStream>> streams;
    std::vector<RequestId> ids;
    for (std::uint32_t i = 0; i < 6; ++i) {
      GenerateRequest request = endless(100 + 7 * i, 500, static_cast<std::uint64_t>(round));
      request.choice_count = 1 + i % 2;
      streams.push_back(bench.submit(request));
      ids.push_back(bench.last_id);
    }
    for (std::size_t i = 0; i < ids.size(); ++i) {
      // Queued, in prefill, before and after the first tokens.
      if (i % 3 != 0) streams[i % 2]->wait_for_events(static_cast<std::size_t>(round % 6));
      bench.engine->cancel(ids[i]);
      bench.engine->cancel(ids[i]);
    }
    for (auto& stream : streams) {
      ASSERT_TRUE(stream->wait());
      EXPECT_EQ(stream->last().kind, Kind::kFinished);
    }
  }
  bench.engine->cancel(RequestId{999999});
  EXPECT_EQ(bench.run(endless(30, 5))->tokens().size(), 5U);
  bench.expect_clean();
  const kv::LedgerCounts counts = bench.ledger->counts();
  EXPECT_EQ(counts.free + counts.evictable, counts.total);
}

TEST(EngineLife, ADeadlineEndsAWaitingRequestWithAnErrorAndARunningOneWithItsText) {
  EngineBench bench({.engine = {.max_running = 1}});
  bench.executor.on_run = [&](const model::Batch&) { bench.clock.advance(kSecond); };
  GenerateRequest running = endless(20, 1000);
  running.deadline = 10 * kSecond;
  GenerateRequest waiting = endless(20, 10, 2);
  waiting.deadline = 5 * kSecond;
  auto a = bench.submit(running);
  auto b = bench.submit(waiting);
  bench.engine->start();
  ASSERT_TRUE(a->wait());
  ASSERT_TRUE(b->wait());
  EXPECT_EQ(a->last().kind, Kind::kFinished);
  EXPECT_EQ(a->last().finish_reason, FinishReason::kDeadline);
  EXPECT_EQ(a->tokens().size(), 10U);
  EXPECT_EQ(b->last().error.code, Code::kDeadline);
  bench.engine->stop();
  EXPECT_EQ(bench.metrics.value(metrics::Metric::kRequestsFinished, "deadline"), 2.0);
  bench.expect_clean();
}

TEST(EngineLife, AFullQueueRefusesAtOnce) {
  EngineBench bench({.engine = {.max_waiting = 3, .max_waiting_per_tenant = 2}});
  const auto code_of = [&](const char* tenant) {
    GenerateRequest request = endless(10, 2);
    request.tenant = tenant;
    const auto id = bench.engine->submit(request, std::make_shared<RecordedStream>());
    return id.ok() ? std::string("ok") : id.error().message;
  };
  EXPECT_EQ(code_of("a"), "ok");
  EXPECT_EQ(code_of("a"), "ok");
  EXPECT_EQ(code_of("a"), "2 requests of this key wait already");
  EXPECT_EQ(code_of("b"), "ok");
  EXPECT_EQ(code_of("b"), "3 requests wait already");
  EXPECT_EQ(bench.engine->snapshot().waiting, 3U);
  EXPECT_GE(bench.engine->estimated_wait_s(), 1.0);
  EXPECT_EQ(bench.metrics.value(metrics::Metric::kRequestsFinished, "rejected"), 2.0);
  bench.expect_clean();
}

TEST(EngineLife, ALogitThatIsNotANumberEndsItsRequestOnly) {
  EngineBench bench;
  bench.executor.poison = TokenId{0};
  bench.engine->start();
  GenerateRequest sick = endless(20, 5);
  sick.prompt[7] = TokenId{0};
  sick.choice_count = 2;
  auto a = bench.submit(sick);
  auto b = bench.submit(endless(30, 20, 3));
  ASSERT_TRUE(a->wait());
  ASSERT_TRUE(b->wait());
  EXPECT_EQ(a->last().error.code, Code::kInternal);
  EXPECT_NE(a->last().error.message.find("not a finite number"), std::string::npos);
  EXPECT_EQ(b->tokens().size(), 20U);
  // Nothing of the broken step was kept.
  sick.choice_count = 1;
  bench.run(sick);
  bench.engine->stop();
  EXPECT_EQ(bench.metrics.value(metrics::Metric::kPrefixCacheHits), 0.0);
  bench.expect_clean();
}

TEST(EngineLife, AFailingStepEndsItsRequestsAndIsRolledBack) {
  EngineBench bench({.engine = {.step_token_budget = 16}});
  bench.executor.on_run = [&](const model::Batch&) {
    if (bench.executor.run_count == 3) bench.executor.fail_next_run = true;
  };
  const GenerateRequest request = endless(64, 5);
  auto failing = bench.submit(request);
  bench.engine->start();
  ASSERT_TRUE(failing->wait());
  EXPECT_EQ(failing->last().error.code, Code::kInternal);
  // Two chunks were computed and committed; the third left scribbled rows behind.
  auto again = bench.run(request);
  EXPECT_EQ(again->last().usage.cached_tokens, 32U);
  EXPECT_EQ(again->tokens(), lone_cold_run(HashModel(bench.vocabulary_size()), request));
  bench.expect_clean();
}

TEST(EngineLife, DrainingRefusesNewWorkAndFinishesTheOld) {
  EngineBench bench;
  auto stream = bench.submit(endless(40, 50));
  EXPECT_FALSE(bench.engine->drained());
  bench.engine->drain();
  const auto refused = bench.engine->submit(endless(5, 1), std::make_shared<RecordedStream>());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_FALSE(bench.engine->drained());
  bench.engine->start();
  ASSERT_TRUE(stream->wait());
  EXPECT_EQ(stream->tokens().size(), 50U);
  bench.engine->stop();
  EXPECT_TRUE(bench.engine->drained());
  bench.expect_clean();
}

TEST(EngineLife, StopCancelsWhatRunsAndWhatWaits) {
  EngineBench bench({.block_count = 1024, .engine = {.max_running = 1}});
  auto running = bench.submit(endless(40, 10000));
  auto waiting = bench.submit(endless(40, 10000, 2));
  bench.engine->start();
  running->wait_for_events(3);
  bench.engine->stop();
  bench.engine->stop();
  EXPECT_EQ(running->last().finish_reason, FinishReason::kCancelled);
  EXPECT_EQ(waiting->last().finish_reason, FinishReason::kCancelled);
  EXPECT_FALSE(bench.engine->submit(endless(5, 1), std::make_shared<RecordedStream>()).ok());
  bench.expect_clean();
}

TEST(EngineLife, AnEngineThatNeverStartedStillEndsItsRequests) {
  EngineBench bench;
  auto stream = bench.submit(endless(40, 10));
  bench.engine->stop();
  EXPECT_EQ(stream->last().finish_reason, FinishReason::kCancelled);
  bench.expect_clean();
}

TEST(EngineLife, ARequestThatIsTriedAgainCountsOnce) {  // O-44
  using metrics::Metric;
  EngineBench bench({.engine = {.max_running = 1, .max_waiting = 1}});
  auto first = bench.submit(endless(10, 2));
  auto second = std::make_shared<RecordedStream>();
  const auto submit = [&] {
    return bench.engine->submit(endless(10, 2, 2), second, engine::WhenFull::kTryLater);
  };
  for (int i = 0; i < 5; ++i) EXPECT_EQ(submit().error().code, Code::kQueueFull);
  EXPECT_EQ(bench.metrics.value(Metric::kRequestsReceived), 1.0);
  EXPECT_EQ(bench.metrics.value(Metric::kRequestsFinished, "rejected"), 0.0);
  bench.engine->start();
  ASSERT_TRUE(first->wait());
  EXPECT_TRUE(submit().ok());
  ASSERT_TRUE(second->wait());
  bench.engine->stop();
  EXPECT_EQ(bench.metrics.value(Metric::kRequestsReceived), 2.0);
  EXPECT_EQ(bench.metrics.value(Metric::kRequestsFinished, "length"), 2.0);
  bench.expect_clean();
}

TEST(EngineLifeDeath, AStepOfMoreRowsThanTheExecutorTakesIsCaughtAtOnce) {
  EXPECT_DEATH(EngineBench({.engine = {.step_token_budget = (1U << 20U) + 1}}),
               "more rows than the executor takes");
}

TEST(EngineLife, ReasonsAddUpToWhatWasReceived) {  // O-44
  using metrics::Metric;
  EngineBench bench({.engine = {.max_context = 512}});
  bench.engine->start();
  std::vector<std::shared_ptr<RecordedStream>> streams;
  std::vector<RequestId> dropped;
  for (std::uint64_t i = 0; i < 5; ++i) {
    GenerateRequest stops = endless(10, 40, i);
    stops.stop_tokens.clear();
    for (std::int32_t token = 0; token < 258; ++token) stops.stop_tokens.push_back(TokenId{token});
    streams.push_back(bench.submit(stops));
    streams.push_back(bench.submit(endless(10, 4, 50 + i)));
    streams.push_back(bench.submit(endless(10, 480, 90 + i)));
    dropped.push_back(bench.last_id);
    EXPECT_FALSE(bench.engine->submit(endless(600, 1), std::make_shared<RecordedStream>()).ok());
  }
  for (const RequestId id : dropped) bench.engine->cancel(id);
  for (auto& stream : streams) ASSERT_TRUE(stream->wait());
  bench.engine->stop();
  const auto count = [&](const char* reason) {
    return bench.metrics.value(Metric::kRequestsFinished, reason);
  };
  EXPECT_EQ(count("stop"), 5.0);
  EXPECT_EQ(count("rejected"), 5.0);
  EXPECT_EQ(count("length") + count("abort"), 10.0);
  EXPECT_GE(count("length"), 5.0);
  EXPECT_EQ(bench.metrics.value(Metric::kRequestsReceived), 20.0);
  EXPECT_EQ(bench.metrics.value(Metric::kRequestsRunning), 0.0);
  EXPECT_EQ(bench.metrics.value(Metric::kRequestsWaiting), 0.0);
  bench.expect_clean();
}

TEST(EngineLife, ManyThreadsMaySubmitCancelAndRead) {
  EngineBench bench({.block_count = 64, .engine = {.max_running = 4, .max_waiting = 20}});
  bench.engine->start();
  std::atomic<int> answered{0};
  std::vector<std::thread> clients;
  for (std::uint64_t client = 0; client < 4; ++client)
    clients.emplace_back([&, client] {
      for (std::uint64_t i = 0; i < 40; ++i) {
        auto stream = std::make_shared<RecordedStream>();
        const auto id = bench.engine->submit(endless(30, 20, client * 100 + i), stream);
        if (!id.ok()) continue;
        if (i % 3 == 0) bench.engine->cancel(*id);
        (void)bench.engine->snapshot();
        (void)bench.engine->estimated_wait_s();
        if (stream->wait()) ++answered;
      }
    });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(answered, 160);
  bench.expect_clean();
}

// B6: what nobody waits for holds no slot, no memory and no place in the queue that somebody wants.
TEST(EngineLife, WhatGivesWayEndsWhereAnAnswerFindsNoPlace) {
  const auto giving_way = [](std::uint32_t prompt_tokens, std::uint64_t seed) {
    GenerateRequest request = greedy(some_tokens(prompt_tokens, seed), 3900);
    request.ignore_eos = true;
    request.gives_way = true;
    return request;
  };
  // By slots, and by blocks.
  for (const BenchOptions& options :
       {BenchOptions{.engine = {.max_running = 1, .max_waiting = 1}},
        BenchOptions{.engine = {.max_running = 8, .max_waiting = 1}}}) {
    EngineBench bench(options);
    const auto beside = bench.submit(giving_way(100, 1));  // 250 of 256 blocks
    const auto answer = bench.submit(greedy(some_tokens(100, 2), 30));
    bench.engine->start();
    ASSERT_TRUE(answer->wait());
    EXPECT_FALSE(answer->failed());
    ASSERT_TRUE(beside->wait());
    EXPECT_EQ(beside->finish_of().finish_reason, FinishReason::kCancelled);
    bench.expect_clean();
  }
  // It waits without taking a place in the queue, and does not push what runs aside.
  EngineBench bench({.engine = {.max_running = 1, .max_waiting = 1}});
  GenerateRequest long_one = greedy(some_tokens(50, 3), 200);
  long_one.ignore_eos = true;
  const auto running = bench.submit(long_one);
  const auto first = bench.submit(giving_way(20, 4));
  const auto second = bench.submit(giving_way(20, 5));
  bench.engine->start();
  ASSERT_TRUE(running->wait());
  EXPECT_EQ(running->finish_of().finish_reason, FinishReason::kLength);
  ASSERT_TRUE(first->wait());
  ASSERT_TRUE(second->wait());
  EXPECT_FALSE(first->failed());
  bench.expect_clean();
}

}  // namespace
}  // namespace refrain::test
