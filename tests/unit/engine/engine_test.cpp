// One request through the engine: tokens, text, ends, limits, logprobs, embeddings.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/str.h"
#include "support/engine_fixture.h"

namespace refrain::test {
namespace {

using engine::Task;
using Kind = TokenEvent::Kind;

// After `prompt` the model wants to write `text`, then EOS.
GenerateRequest scripted(EngineBench& bench, const std::string& text, std::uint32_t max_tokens) {
  GenerateRequest request = greedy(some_tokens(20), max_tokens);
  bench.executor.script_prompt = 20;
  bench.executor.script = bench.tokenizer.encode(text, {});
  bench.executor.script.push_back(ByteTokenizer::kEos);
  return request;
}

TEST(Engine, AnswersWithTheTokensOfALoneColdRun) {
  EngineBench bench;
  bench.engine->start();
  const GenerateRequest request = greedy(some_tokens(100), 40);
  auto stream = bench.run(request);
  EXPECT_EQ(stream->tokens(), lone_cold_run(HashModel(bench.vocabulary_size()), request));
  EXPECT_EQ(stream->last().usage.prompt_tokens, 100U);
  EXPECT_EQ(stream->last().usage.computed_tokens, 100U);
  EXPECT_EQ(stream->last().usage.miss_reason, kv::MissReason::kCold);
  bench.expect_clean();
}

TEST(Engine, EndsAtTheEndTokenAndCountsIt) {
  EngineBench bench;
  GenerateRequest request = scripted(bench, "Paris", 50);
  bench.engine->start();
  auto stream = bench.run(request);
  EXPECT_EQ(stream->text(), "Paris");
  EXPECT_EQ(stream->finish_of().finish_reason, FinishReason::kStop);
  EXPECT_EQ(stream->finish_of().stop_matched, "");
  EXPECT_EQ(stream->last().kind, Kind::kFinished);
  EXPECT_EQ(stream->last().usage.completion_tokens, 6U);
}

TEST(Engine, IgnoreEosGoesOnToTheLimit) {
  EngineBench bench;
  GenerateRequest request = scripted(bench, "ab", 30);
  request.ignore_eos = true;
  bench.engine->start();
  auto stream = bench.run(request);
  EXPECT_EQ(stream->tokens().size(), 30U);
  EXPECT_EQ(stream->finish_of().finish_reason, FinishReason::kLength);
  EXPECT_TRUE(stream->text().starts_with("ab"));
  EXPECT_TRUE(is_valid_utf8(stream->text()));
}

TEST(Engine, AStopStringAcrossTokensEndsTheChoice) {  // O-18
  EngineBench bench;
  GenerateRequest request = scripted(bench, "four five six seven", 50);
  request.stop = {"five six"};
  request.sampling.top_logprobs = 0;
  bench.engine->start();
  auto stream = bench.run(request);
  EXPECT_EQ(stream->text(), "four ");
  EXPECT_EQ(stream->finish_of().finish_reason, FinishReason::kStop);
  EXPECT_EQ(stream->finish_of().stop_matched, "five six");
  std::string joined;
  for (const engine::TokenLogprob& item : stream->logprobs()) joined += item.bytes;
  EXPECT_EQ(joined, "four ") << "O-45";
}

TEST(Engine, AStopThatNeverCompletesLosesNothing) {  // O-18
  EngineBench bench;
  GenerateRequest request = scripted(bench, "five six", 50);
  request.stop = {"five sixty"};
  bench.engine->start();
  EXPECT_EQ(bench.run(request)->text(), "five six");
}

TEST(Engine, AStopTokenEndsWithoutItsText) {
  EngineBench bench({.words = {"###"}});
  GenerateRequest request = scripted(bench, "ab###cd", 50);
  request.stop_tokens = {TokenId{258}};
  bench.engine->start();
  auto stream = bench.run(request);
  EXPECT_EQ(stream->text(), "ab");
  EXPECT_EQ(stream->finish_of().stop_matched, "###");
}

TEST(Engine, TextIsValidUtf8ForEveryLimit) {  // O-17
  const std::string llamas = "🦙🦙日本";
  for (std::uint32_t limit = 1; limit <= 14; ++limit) {
    EngineBench bench;
    GenerateRequest request = scripted(bench, llamas, limit);
    bench.engine->start();
    auto stream = bench.run(request);
    std::string joined;
    for (const TokenEvent& event : stream->events()) {
      EXPECT_TRUE(is_valid_utf8(event.text));
      joined += event.text;
    }
    EXPECT_EQ(joined, to_valid_utf8(llamas.substr(0, limit)));
  }
}

TEST(Engine, MaxTokensZeroComputesThePromptOnly) {  // O-13
  EngineBench bench;
  bench.engine->start();
  GenerateRequest request = greedy(some_tokens(40), 0);
  request.choice_count = 2;
  auto stream = bench.run(request);
  EXPECT_EQ(stream->text(), "");
  EXPECT_EQ(stream->finish_of(0).finish_reason, FinishReason::kLength);
  EXPECT_EQ(stream->finish_of(1).finish_reason, FinishReason::kLength);
  EXPECT_EQ(stream->last().usage.computed_tokens, 40U);
  EXPECT_EQ(stream->last().usage.completion_tokens, 0U);
  EXPECT_EQ(bench.run(greedy(some_tokens(40), 1))->last().usage.cached_tokens, 39U);
  bench.expect_clean();
}

TEST(Engine, HugeMaxTokensAreClampedToTheContext) {  // O-13, O-14
  EngineBench bench({.engine = {.max_context = 64}});
  bench.engine->start();
  for (const std::uint32_t max_tokens : {44U, 1000000U, 2147483647U, 4294967295U}) {
    GenerateRequest request = greedy(some_tokens(20), max_tokens);
    request.ignore_eos = true;
    auto stream = bench.run(request);
    EXPECT_EQ(stream->tokens().size(), 44U);
    EXPECT_EQ(stream->finish_of().finish_reason, FinishReason::kLength);
  }
}

TEST(Engine, APromptThatLeavesNoRoomIsRefusedWithBothNumbers) {  // O-14
  EngineBench bench({.engine = {.max_context = 512}});
  bench.engine->start();
  const auto refusal = [&](GenerateRequest request) {
    const auto id = bench.engine->submit(std::move(request), std::make_shared<RecordedStream>());
    return id.ok() ? Error{Code::kNotFound, ""} : id.error();
  };
  const Error error = refusal(greedy(some_tokens(5000), 10));
  EXPECT_EQ(error.code, Code::kContextLength);
  EXPECT_EQ(error.message, "prompt has 5000 tokens, context holds 512");
  EXPECT_EQ(refusal(greedy(some_tokens(512), 1)).code, Code::kContextLength);
  EXPECT_EQ(refusal(greedy(some_tokens(513), 0)).code, Code::kContextLength);
  EXPECT_EQ(bench.run(greedy(some_tokens(511), 10))->tokens().size(), 1U);
  EXPECT_EQ(bench.run(greedy(some_tokens(512), 0))->last().usage.prompt_tokens, 512U);
}

TEST(Engine, APromptLargerThanThePoolIsRefused) {  // A10
  EngineBench bench({.block_count = 4});
  const auto id =
      bench.engine->submit(greedy(some_tokens(64), 1), std::make_shared<RecordedStream>());
  ASSERT_FALSE(id.ok());
  EXPECT_EQ(id.error().code, Code::kContextLength);
  EXPECT_EQ(id.error().message, "prompt has 64 tokens, the KV budget holds 64");
  bench.engine->start();
  GenerateRequest fits = greedy(some_tokens(60), 100);
  fits.ignore_eos = true;
  EXPECT_EQ(bench.run(fits)->tokens().size(), 4U);
  bench.expect_clean();
}

TEST(Engine, WrongRequestsNameTheirField) {  // O-24
  EngineBench bench;
  const auto field_of = [&](GenerateRequest request) {
    const auto id = bench.engine->submit(std::move(request), std::make_shared<RecordedStream>());
    return id.ok() ? std::string("ok") : id.error().field;
  };
  GenerateRequest good = greedy(some_tokens(3), 1);
  EXPECT_EQ(field_of(greedy({}, 1)), "prompt");
  EXPECT_EQ(field_of(greedy({TokenId{258}}, 1)), "prompt");
  EXPECT_EQ(field_of(greedy({TokenId{-1}}, 1)), "prompt");
  GenerateRequest bad = good;
  bad.choice_count = 0;
  EXPECT_EQ(field_of(bad), "n");
  bad.choice_count = 1000;
  EXPECT_EQ(field_of(bad), "n");
  bad = good;
  bad.stop = {"a", ""};
  EXPECT_EQ(field_of(bad), "stop");
  bad = good;
  bad.stop_tokens = {TokenId{9999}};
  EXPECT_EQ(field_of(bad), "stop_token_ids");
  bad = good;
  bad.sampling.top_p = 2.0F;
  EXPECT_EQ(field_of(bad), "top_p");
  for (const double limit : {-0.01, std::nan(""), HUGE_VAL}) {
    bad = good;
    bad.reuse.max_divergence = limit;
    EXPECT_EQ(field_of(bad), "reuse.max_divergence") << limit;
  }
}

TEST(Engine, PromptLogprobsScoreEveryTokenAndTheFirstHasNone) {
  EngineBench bench;
  bench.engine->start();
  GenerateRequest request = greedy(some_tokens(90), 2);
  request.prompt_logprobs = true;
  request.sampling.top_logprobs = 2;
  for (int round = 0; round < 2; ++round) {  // the second time the prompt is in the cache
    auto stream = bench.run(request);
    const auto& items = stream->last().prompt_logprobs;
    ASSERT_EQ(items.size(), 90U);
    EXPECT_TRUE(std::isnan(items[0].logprob));
    const HashModel model(bench.vocabulary_size());
    for (std::size_t p = 1; p < items.size(); ++p) {
      const TokenList before(request.prompt.begin(), request.prompt.begin() + static_cast<int>(p));
      const auto expected =
          engine::read_logprobs(model.logits_after(before), request.prompt[p], 2).value();
      ASSERT_EQ(items[p].token, request.prompt[p]);
      ASSERT_EQ(items[p].logprob, *expected.logprob);
      ASSERT_EQ(items[p].top.size(), 2U);
      ASSERT_EQ(items[p].top[0].token, expected.top[0].token);
    }
    EXPECT_EQ(stream->last().usage.cached_tokens, 0U);
  }
  bench.expect_clean();
}

TEST(Engine, AnEmbeddingIsTheNormalisedMeanHoweverThePromptIsChunked) {
  std::vector<std::vector<float>> embeddings;
  for (const std::uint32_t budget : {1U, 7U, 256U}) {
    EngineBench bench({.engine = {.step_token_budget = budget}});
    bench.engine->start();
    GenerateRequest request = greedy(some_tokens(50), 10);
    request.task = Task::kEmbed;
    bench.run(request);
    auto stream = bench.run(request);  // the cache must not swallow rows
    embeddings.push_back(stream->last().embedding);
    EXPECT_EQ(stream->last().usage.cached_tokens, 0U);
    EXPECT_EQ(stream->last().usage.computed_tokens, 50U);
    bench.expect_clean();
    EXPECT_EQ(bench.ledger->counts().evictable, 0U) << "embeddings are not cached";
  }
  double norm = 0;
  for (const float value : embeddings[0]) norm += static_cast<double>(value) * value;
  EXPECT_EQ(embeddings[0].size(), 4U);
  EXPECT_NEAR(norm, 1.0, 1e-6);
  EXPECT_EQ(embeddings[0], embeddings[1]);
  EXPECT_EQ(embeddings[0], embeddings[2]);
}

TEST(Engine, SeveralChoicesShareOnePromptAndEndTogether) {
  EngineBench bench;
  bench.engine->start();
  GenerateRequest request = greedy(some_tokens(100), 12);
  request.sampling.temperature = 1.0F;
  request.sampling.seed = 5;
  request.choice_count = 4;
  request.ignore_eos = true;
  auto stream = bench.run(request);
  const HashModel model(bench.vocabulary_size());
  for (std::uint32_t choice = 0; choice < 4; ++choice)
    EXPECT_EQ(stream->tokens(choice), lone_cold_run(model, request, choice));
  EXPECT_NE(stream->tokens(0), stream->tokens(1));
  EXPECT_EQ(stream->last().usage.prompt_tokens, 100U);
  EXPECT_EQ(stream->last().usage.computed_tokens, 100U);
  EXPECT_EQ(stream->last().usage.completion_tokens, 48U);
  // Blocks 0..5 of the prompt are shared; each further choice computes its last 4 tokens.
  EXPECT_EQ(bench.engine->snapshot().computed_prompt_tokens, 100U + 3 * 4);
  bench.expect_clean();
}

TEST(Engine, ALongPromptReportsProgressAndAShortOneDoesNot) {
  EngineBench bench({.engine = {.step_token_budget = 32}});
  bench.engine->start();
  std::vector<std::uint32_t> done;
  for (const TokenEvent& event : bench.run(greedy(some_tokens(100), 1))->events())
    if (event.kind == Kind::kPromptProgress) {
      EXPECT_EQ(event.progress_total, 100U);
      done.push_back(event.progress_done);
    }
  EXPECT_EQ(done, (std::vector<std::uint32_t>{32, 64, 96, 100}));
  for (const TokenEvent& event : bench.run(greedy(some_tokens(20, 9), 1))->events())
    EXPECT_NE(event.kind, Kind::kPromptProgress);
}

TEST(Engine, TimesComeFromTheClock) {
  EngineBench bench({.engine = {.step_token_budget = 64}});
  bench.executor.on_run = [&](const model::Batch&) { bench.clock.advance(10 * kMillisecond); };
  GenerateRequest request = greedy(some_tokens(128), 5);
  request.ignore_eos = true;
  auto stream = bench.submit(request);
  bench.clock.advance(100 * kMillisecond);
  bench.engine->start();
  ASSERT_TRUE(stream->wait());
  const engine::Timings times = stream->last().timings;
  EXPECT_DOUBLE_EQ(times.queue_ms, 100);
  EXPECT_DOUBLE_EQ(times.prefill_ms, 20);
  EXPECT_DOUBLE_EQ(times.ttft_ms, 120);
  EXPECT_DOUBLE_EQ(times.decode_ms, 40);
  EXPECT_DOUBLE_EQ(times.tpot_ms, 10);
}

TEST(Engine, AGrammarEndsTheChoiceAndItsTextIsValid) {
  EngineBench bench;
  engine::GrammarCompiler compiler(bench.tokenizer);
  bench.engine->start();
  GenerateRequest request = greedy(some_tokens(10), 200);
  request.grammar = compiler
                        .compile({.kind = engine::GrammarSpec::Kind::kJsonSchema,
                                  .schema_json = R"({"enum":["red","green"]})"})
                        .value();
  auto stream = bench.run(request);
  EXPECT_TRUE(stream->text() == "\"red\"" || stream->text() == "\"green\"") << stream->text();
  EXPECT_EQ(stream->finish_of().finish_reason, FinishReason::kStop);
  bench.expect_clean();
}

TEST(Engine, AGrammarAndABiasThatLeaveNothingEndTheRequestOnly) {
  EngineBench bench;
  engine::GrammarCompiler compiler(bench.tokenizer);
  bench.engine->start();
  GenerateRequest request = greedy(some_tokens(10), 20);
  request.grammar = compiler
                        .compile({.kind = engine::GrammarSpec::Kind::kJsonSchema,
                                  .schema_json = R"({"const":"x"})"})
                        .value();
  request.sampling.logit_bias = {{TokenId{'"'}, -100.0F}};
  auto stream = bench.run(request);
  EXPECT_TRUE(stream->failed());
  EXPECT_EQ(stream->last().error.code, Code::kInvalidArgument);
  EXPECT_FALSE(bench.run(greedy(some_tokens(10), 3))->failed());
  bench.expect_clean();
}

}  // namespace
}  // namespace refrain::test
