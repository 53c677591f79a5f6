// Contexts kept within a budget, on tiny random models (B4, C14): the first token is that of the
// whole prompt, what is kept fits the budget, other answers and later exact ones do not change.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "support/model_bench.h"

namespace refrain::test {
namespace {

constexpr std::uint32_t kPrompt = 300;
constexpr std::uint32_t kBudget = 112;

GenerateRequest trimmed(TokenList prompt, std::string_view policy, std::uint32_t max_tokens,
                        std::uint32_t budget = kBudget) {
  GenerateRequest request = greedy(std::move(prompt), max_tokens);
  request.ignore_eos = true;
  request.context = {model::trim_policy_named(policy), budget};
  return request;
}

GenerateRequest whole(TokenList prompt, std::uint32_t max_tokens) {
  GenerateRequest request = greedy(std::move(prompt), max_tokens);
  request.ignore_eos = true;
  return request;
}

class Trim : public testing::TestWithParam<std::string_view> {};

TEST_P(Trim, AnAnswerHoldsNoMoreThanItsBudget) {
  for (const char* name : {"tiny-llama", "tiny-gemma3"}) {
    ModelBench bench(name, /*prefix_cache=*/true);
    const TokenList prompt = bench.prompt(kPrompt, 1);
    const auto exact = bench.run(whole(prompt, 60));
    const auto cut = bench.run(trimmed(prompt, GetParam(), 60));
    ASSERT_FALSE(cut->failed()) << cut->last().error.message;
    const engine::Usage usage = cut->last().usage;
    EXPECT_EQ(usage.completion_tokens, 60U);
    EXPECT_EQ(cut->tokens().front(), exact->tokens().front());
    EXPECT_EQ(exact->last().usage.dropped_tokens, 0U);
    // The last token has no row; a row of the last block may be all there is of it.
    EXPECT_EQ(usage.dropped_tokens % 16, 0U);
    EXPECT_LE(kPrompt + 59 - usage.dropped_tokens, kBudget);
    EXPECT_GT(kPrompt + 59 - usage.dropped_tokens, kBudget / 2);
    EXPECT_EQ(bench.metrics.value(metrics::Metric::kContextTrims), 1.0);
    EXPECT_EQ(bench.metrics.value(metrics::Metric::kContextTokensDropped), usage.dropped_tokens);
    bench.engine->stop();
    EXPECT_EQ(bench.ledger->verify(), "");
    EXPECT_EQ(bench.ledger->counts().pinned, 0U);
    EXPECT_EQ(bench.ledger->counts().reserved, 0U);
  }
}

// The off switch: a budget that is never reached changes no token, and nothing is reserved for it.
TEST_P(Trim, ABudgetThatIsNotReachedChangesNothing) {
  ModelBench bench("tiny-llama", /*prefix_cache=*/true);
  const TokenList prompt = bench.prompt(kPrompt, 2);
  GenerateRequest asked = whole(prompt, 40);
  asked.sampling.top_logprobs = 3;
  const auto exact = bench.run(asked);
  asked.context = {model::trim_policy_named(GetParam()), kPrompt + 40};
  const auto same = bench.run(asked);
  EXPECT_EQ(same->tokens(), exact->tokens());
  ASSERT_EQ(same->logprobs().size(), exact->logprobs().size());
  for (std::size_t i = 0; i < same->logprobs().size(); ++i)
    EXPECT_EQ(same->logprobs()[i].logprob, exact->logprobs()[i].logprob);
  EXPECT_EQ(same->last().usage.dropped_tokens, 0U);
}

// What was computed behind a cut is never offered as exact: the next turn, which contains the
// trimmed answer, is that of a cold run.
TEST_P(Trim, TheNextTurnIsExact) {
  ModelBench bench("tiny-llama", /*prefix_cache=*/true, 48, {}, /*idle=*/false);
  ModelBench cold("tiny-llama", /*prefix_cache=*/false);
  for (const bool use_cache : {true, false}) {
    GenerateRequest asked = trimmed(bench.prompt(kPrompt, use_cache ? 3 : 4), GetParam(), 50);
    asked.use_cache = use_cache;
    const auto first = bench.run(asked);
    EXPECT_GT(first->last().usage.dropped_tokens, 0U);
    TokenList next = asked.prompt;
    const TokenList answer = first->tokens();
    next.insert(next.end(), answer.begin(), answer.end());
    for (const TokenId token : bench.prompt(20, 9)) next.push_back(token);
    const auto warm = bench.run(whole(next, 20));
    EXPECT_EQ(warm->tokens(), cold.run(whole(next, 20))->tokens());
    // Of the prompt all whole blocks were published, of the answer nothing.
    EXPECT_EQ(warm->last().usage.cached_tokens, use_cache ? kPrompt / 16 * 16 : 0U);
  }
}

TEST_P(Trim, OthersAnswerAsIfAlone) {
  ModelBench bench("tiny-llama", /*prefix_cache=*/true);
  ModelBench cold("tiny-llama", /*prefix_cache=*/false);
  const GenerateRequest asked = whole(bench.prompt(120, 5), 60);
  GenerateRequest both = trimmed(bench.prompt(kPrompt, 6), GetParam(), 40);
  both.choice_count = 2;
  const auto other = bench.submit(asked);
  const auto cut = bench.submit(both);
  ASSERT_TRUE(other->wait() && cut->wait());
  EXPECT_FALSE(cut->failed());
  EXPECT_EQ(cut->tokens(0), cut->tokens(1)) << "both choices keep the same rows";
  EXPECT_EQ(other->tokens(), cold.run(asked)->tokens());
  bench.engine->stop();
  EXPECT_EQ(bench.ledger->verify(), "");
}

INSTANTIATE_TEST_SUITE_P(Policies, Trim,
                         testing::Values("window", "heavy_hitters", "kvzip", "prefix_importance"),
                         [](const auto& test) { return std::string(test.param); });

// While nobody waits the trimmed answer is computed exactly, so that the next turn finds it.
TEST_P(Trim, IdleTimeComputesTheAnswerExactly) {
  ModelBench bench("tiny-llama", /*prefix_cache=*/true);
  ModelBench cold("tiny-llama", /*prefix_cache=*/false);
  const GenerateRequest asked = trimmed(bench.prompt(kPrompt, 11), GetParam(), 50);
  TokenList next = asked.prompt;
  const TokenList answer = bench.run(asked)->tokens();
  next.insert(next.end(), answer.begin(), answer.end());
  for (const TokenId token : bench.prompt(20, 9)) next.push_back(token);
  for (int i = 0; i < 3000 && bench.engine->snapshot().idle_tokens < 49; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const auto warm = bench.run(whole(next, 20));
  EXPECT_EQ(warm->tokens(), cold.run(whole(next, 20))->tokens());
  EXPECT_EQ(warm->last().usage.cached_tokens, kPrompt + 49);
  // And again with a budget: what was found about the beginning is used, the rest is looked at.
  EXPECT_GT(bench.run(trimmed(next, GetParam(), 20))->last().usage.dropped_tokens, 200U);
  bench.engine->stop();
  EXPECT_EQ(bench.ledger->verify(), "");
  EXPECT_EQ(bench.ledger->counts().pinned, 0U);
}

// A prompt within the budget is only cut once the answer has outgrown it.
TEST(TrimLater, AnAnswerThatOutgrowsTheBudgetIsCutOnTheWay) {
  ModelBench bench("tiny-llama", /*prefix_cache=*/true);
  const TokenList prompt = bench.prompt(60, 7);
  const auto exact = bench.run(whole(prompt, 120));
  for (const model::TrimPolicy& policy : model::trim_policies()) {
    const auto cut = bench.run(trimmed(prompt, policy.name, 120));
    const engine::Usage usage = cut->last().usage;
    EXPECT_LE(60 + 119 - usage.dropped_tokens, kBudget) << policy.name;
    for (std::size_t i = 0; i + 60 < kBudget; ++i)
      EXPECT_EQ(cut->tokens()[i], exact->tokens()[i]) << policy.name;
  }
}

TEST(TrimRefused, ABudgetTooSmallNamesItsFieldAndTheLeastOne) {
  ModelBench bench("tiny-gemma3", /*prefix_cache=*/true);
  const std::uint32_t least =
      model::least_trim_budget({.block_size = 16, .window = bench.model->shape().sliding_window});
  const auto refused = bench.engine->submit(trimmed(bench.prompt(200, 8), "window", 10, least - 1),
                                            std::make_shared<RecordedStream>());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().field, "context.budget_tokens");
  EXPECT_NE(refused.error().message.find(std::to_string(least)), std::string::npos);
  EXPECT_GT(
      bench.run(trimmed(bench.prompt(200, 8), "window", 10, least))->last().usage.dropped_tokens,
      0U);
}

// Without room for its look beside the request's worst case, a context stays whole.
TEST(TrimRefused, ALookThatFitsNowhereLeavesTheContextWhole) {
  ModelBench bench("tiny-llama", /*prefix_cache=*/true);  // 2,048 token slots
  const auto stream = bench.run(trimmed(bench.prompt(1900, 9), "kvzip", 100));
  EXPECT_FALSE(stream->failed());
  EXPECT_EQ(stream->last().usage.dropped_tokens, 0U);
  EXPECT_GT(bench.run(trimmed(bench.prompt(1900, 9), "window", 100))->last().usage.dropped_tokens,
            1000U);
}

}  // namespace
}  // namespace refrain::test
