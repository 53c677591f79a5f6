// The engine on real operators: tiny random models of each architecture, warm against cold
// (A2, A6, O-02, O-12).
#include <gtest/gtest.h>

#include "support/model_bench.h"

namespace refrain::test {
namespace {

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
