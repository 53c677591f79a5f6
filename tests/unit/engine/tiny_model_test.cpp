// The engine on real operators: tiny random models of each architecture, warm against cold
// (A2, A6, O-02, O-12).
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "model/executor.h"
#include "model/kv_arena.h"
#include "model/model.h"
#include "support/engine_fixture.h"
#include "text/tokenizer.h"

namespace refrain::test {
namespace {

// A model with its own arena, ledger and engine.
struct ModelBench {
  explicit ModelBench(const std::string& name, bool prefix_cache, std::uint32_t budget = 48) {
    auto loaded =
        model::Model::load({.path = std::string(REFRAIN_TEST_GENERATED) + "/" + name + ".gguf"});
    EXPECT_TRUE(loaded.ok()) << loaded.error().message;
    model = std::move(loaded).value();
    tokenizer = text::Tokenizer::create(model->vocabulary()).value();
    constexpr std::uint32_t kBlocks = 64;
    arena = model::KvArena::create(model->shape(), model::KvFormat::kF16, 16, kBlocks).value();
    executor =
        model::Executor::create_cpu(*model, *arena, {.thread_count = 1, .max_batch_rows = 64})
            .value();
    ledger =
        kv::Ledger::create({.block_size = 16, .block_count = kBlocks, .prefix_cache = prefix_cache})
            .value();
    engine::EngineParts parts;
    parts.tokenizer = tokenizer.get();
    parts.executor = executor.get();
    parts.ledger = ledger.get();
    parts.clock = &clock;
    parts.vocabulary_size = model->shape().vocabulary_size;
    parts.embedding_dim = model->shape().embedding_dim;
    parts.cache_root = model->fingerprint();
    engine = std::make_unique<engine::Engine>(
        parts, engine::EngineOptions{.step_token_budget = budget, .max_running = 8});
    engine->start();
  }

  std::shared_ptr<RecordedStream> submit(GenerateRequest request) {
    auto stream = std::make_shared<RecordedStream>();
    EXPECT_TRUE(engine->submit(std::move(request), stream).ok());
    return stream;
  }
  std::shared_ptr<RecordedStream> run(GenerateRequest request) {
    auto stream = submit(std::move(request));
    EXPECT_TRUE(stream->wait());
    return stream;
  }
  // A prompt of ordinary tokens of this vocabulary.
  TokenList prompt(std::uint32_t count, std::uint64_t seed) const {
    TokenList tokens;
    while (tokens.size() < count) {
      const auto token =
          static_cast<TokenId>(HashModel::mix(seed++, 5) % model->shape().vocabulary_size);
      if (!tokenizer->is_control(token)) tokens.push_back(token);
    }
    return tokens;
  }

  SteadyClock clock;
  std::unique_ptr<model::Model> model;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::unique_ptr<model::KvArena> arena;
  std::unique_ptr<model::Executor> executor;
  std::unique_ptr<kv::Ledger> ledger;
  std::unique_ptr<engine::Engine> engine;
};

class TinyModel : public testing::TestWithParam<const char*> {};

TEST_P(TinyModel, WarmAnswersEqualColdOnesWhateverRunsBeside) {
  ModelBench warm(GetParam(), /*prefix_cache=*/true);
  ModelBench cold(GetParam(), /*prefix_cache=*/false, /*budget=*/13);
  const TokenList head = warm.prompt(90, 1);
  std::vector<GenerateRequest> requests;
  std::vector<std::shared_ptr<RecordedStream>> streams;
  for (const std::uint32_t keep : {90U, 90U, 80U, 64U, 65U, 33U, 0U, 89U}) {
    TokenList prompt(head.begin(), head.begin() + keep);
    for (const TokenId token : warm.prompt(10, 1000 + keep)) prompt.push_back(token);
    GenerateRequest request = greedy(std::move(prompt), 12);
    request.sampling.top_logprobs = 5;
    requests.push_back(request);
    streams.push_back(warm.submit(request));
    if (requests.size() % 3 == 1) streams.back()->wait();
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(streams[i]->wait());
    ASSERT_FALSE(streams[i]->failed()) << streams[i]->last().error.message;
    auto alone = cold.run(requests[i]);
    EXPECT_EQ(streams[i]->tokens(), alone->tokens()) << "request " << i;
    EXPECT_EQ(alone->last().usage.cached_tokens, 0U);
  }
  EXPECT_EQ(warm.run(requests[0])->last().usage.cached_tokens, requests[0].prompt.size() - 1);
  warm.engine->stop();
  EXPECT_EQ(warm.ledger->verify(), "");
  EXPECT_EQ(warm.ledger->counts().pinned, 0U);
}

INSTANTIATE_TEST_SUITE_P(Architectures, TinyModel,
                         testing::Values("tiny-llama", "tiny-qwen2", "tiny-qwen3", "tiny-gemma3",
                                         "tiny-mha", "tiny-mqa"),
                         [](const auto& test) { return std::string(test.param + 5); });

TEST(TinyModelLife, ANotANumberEndsItsRequestAndTheNextOneWorks) {
  ModelBench bench("tiny-nan", /*prefix_cache=*/true);
  auto stream = bench.run(greedy(bench.prompt(20, 3), 5));
  EXPECT_TRUE(stream->failed());
  EXPECT_EQ(stream->last().error.code, Code::kInternal);
  EXPECT_TRUE(bench.run(greedy(bench.prompt(20, 4), 5))->failed()) << "the engine lives on";
}

TEST(TinyModelLife, AnEmbeddingHasUnitLength) {
  ModelBench bench("tiny-llama", /*prefix_cache=*/true);
  GenerateRequest request = greedy(bench.prompt(70, 3), 0);
  request.task = engine::Task::kEmbed;
  const std::vector<float> embedding = bench.run(request)->last().embedding;
  ASSERT_EQ(embedding.size(), bench.model->shape().embedding_dim);
  double norm = 0;
  for (const float value : embedding) norm += static_cast<double>(value) * value;
  EXPECT_NEAR(norm, 1.0, 1e-5);
}

}  // namespace
}  // namespace refrain::test
