// Reuse through the engine: what hits, what must not (A2, O-02, O-04, O-09, O-11).
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "support/engine_fixture.h"

namespace refrain::test {
namespace {

TokenList joined(TokenList a, const TokenList& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(EngineCache, ARepeatComputesExactlyItsLastToken) {  // O-02
  for (const std::uint32_t length : {1U, 2U, 15U, 16U, 17U, 31U, 32U, 33U, 100U}) {
    EngineBench bench;
    bench.engine->start();
    const GenerateRequest request = greedy(some_tokens(length), 8);
    const TokenList expected = lone_cold_run(HashModel(bench.vocabulary_size()), request);
    for (int round = 0; round < 3; ++round) {
      auto stream = bench.run(request);
      EXPECT_EQ(stream->tokens(), expected);
      EXPECT_EQ(stream->last().usage.cached_tokens, round == 0 ? 0 : length - 1);
    }
    bench.expect_clean();
  }
}

TEST(EngineCache, TheNextTurnHitsTheReplyButNotItsLastToken) {  // O-09
  EngineBench bench;
  bench.engine->start();
  GenerateRequest first = greedy(some_tokens(50), 13);
  first.ignore_eos = true;
  const TokenList reply = bench.run(first)->tokens();
  ASSERT_EQ(reply.size(), 13U);
  const TokenList turn = joined(joined(first.prompt, reply), some_tokens(20, 3));
  const GenerateRequest second = greedy(turn, 5);
  auto stream = bench.run(second);
  EXPECT_EQ(stream->last().usage.cached_tokens, 50U + 13 - 1)
      << "the last sampled token was never run";
  EXPECT_EQ(stream->tokens(), lone_cold_run(HashModel(bench.vocabulary_size()), second));
  EXPECT_EQ(stream->last().usage.miss_reason, kv::MissReason::kEnded);
  bench.expect_clean();
}

TEST(EngineCache, AHeadIsSharedWithARequestThatStillRuns) {  // O-11
  EngineBench bench({.engine = {.step_token_budget = 512}});
  const TokenList head = some_tokens(160);
  GenerateRequest a = greedy(joined(head, some_tokens(20, 2)), 60);
  a.ignore_eos = true;
  auto first = bench.submit(a);
  std::shared_ptr<RecordedStream> second;
  // Once the first has begun to decode, a second one comes with the same head.
  bench.executor.on_run = [&](const model::Batch&) {
    if (bench.executor.run_count == 5)
      second = bench.submit(greedy(joined(head, some_tokens(20, 4)), 5));
  };
  bench.engine->start();
  ASSERT_TRUE(first->wait());
  ASSERT_NE(second, nullptr);
  ASSERT_TRUE(second->wait());
  EXPECT_EQ(second->last().usage.cached_tokens, 160U);
  bench.expect_clean();
}

TEST(EngineCache, AnUnrelatedPromptDoesNotWipeALongOne) {  // O-11
  EngineBench bench;
  bench.engine->start();
  const GenerateRequest a = greedy(some_tokens(1500, 1), 4);
  const GenerateRequest b = greedy(some_tokens(1500, 2), 4);
  bench.run(a);
  bench.run(b);
  EXPECT_EQ(bench.run(a)->last().usage.cached_tokens, 1499U);
  EXPECT_EQ(bench.run(b)->last().usage.cached_tokens, 1499U);
}

TEST(EngineCache, SaltsAreSeparatedAndSamplingIsNot) {  // O-04
  EngineBench bench;
  bench.engine->start();
  GenerateRequest request = greedy(some_tokens(64), 4);
  bench.run(request);
  GenerateRequest salted = request;
  salted.salt = Hash128{3, 4};
  EXPECT_EQ(bench.run(salted)->last().usage.cached_tokens, 0U);
  EXPECT_EQ(bench.run(salted)->last().usage.cached_tokens, 63U);
  request.sampling.temperature = 1.0F;
  request.sampling.seed = 9;
  request.sampling.logit_bias = {{TokenId{5}, -100.0F}};
  EXPECT_EQ(bench.run(request)->last().usage.cached_tokens, 63U);
}

TEST(EngineCache, WithoutCacheNothingIsMatchedAndNothingIsLeft) {
  EngineBench bench;
  bench.engine->start();
  GenerateRequest request = greedy(some_tokens(64), 4);
  request.use_cache = false;
  for (int round = 0; round < 2; ++round) {
    auto stream = bench.run(request);
    EXPECT_EQ(stream->last().usage.cached_tokens, 0U);
    EXPECT_EQ(stream->last().usage.miss_reason, kv::MissReason::kDisabled);
  }
  request.use_cache = true;
  EXPECT_EQ(bench.run(request)->last().usage.cached_tokens, 0U);
  bench.expect_clean();
}

TEST(EngineCache, TheOffSwitchGivesTheSameAnswers) {
  EngineBench off({.prefix_cache = false});
  EngineBench on;
  off.engine->start();
  on.engine->start();
  for (std::uint64_t seed = 1; seed < 6; ++seed) {
    const GenerateRequest request = greedy(joined(some_tokens(40), some_tokens(30, seed)), 20);
    auto a = off.run(request);
    auto b = on.run(request);
    EXPECT_EQ(a->tokens(), b->tokens());
    EXPECT_EQ(a->last().usage.cached_tokens, 0U);
  }
}

TEST(EngineCache, UnrelatedPromptsInATightPoolHitNothing) {                // O-42
  EngineBench bench({.block_count = 125, .engine = {.max_running = 16}});  // 2000 tokens
  std::vector<std::shared_ptr<RecordedStream>> streams;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    GenerateRequest request = greedy(some_tokens(400, seed), 400);
    request.prompt[0] = static_cast<TokenId>(seed);
    request.ignore_eos = true;
    streams.push_back(bench.submit(request));
  }
  bench.engine->start();
  for (auto& stream : streams) {
    ASSERT_TRUE(stream->wait());
    EXPECT_EQ(stream->tokens().size(), 400U) << "no admitted request dies of memory (A10)";
  }
  bench.engine->stop();
  EXPECT_EQ(bench.metrics.value(metrics::Metric::kPrefixCacheQueries), 3200.0);
  EXPECT_EQ(bench.metrics.value(metrics::Metric::kPrefixCacheHits), 0.0);
  bench.expect_clean();
}

}  // namespace
}  // namespace refrain::test
