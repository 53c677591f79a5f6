// Contexts kept within a budget, on tiny random models (B4, C14): the first token is that of the
// whole prompt, what is kept fits the budget, other answers and later exact ones do not change.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
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
                         testing::Values("window", "heavy_hitters", "kvzip", "expected_attention",
                                         "prefix_importance"),
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

// O-37: what a chat begins with is never cut, and a budget that has no room for it says so. One
// that is never reached is none of its business.
TEST(TrimRefused, ABudgetWithoutRoomForTheSystemTurnSaysSo) {
  ModelBench bench("tiny-llama", /*prefix_cache=*/true);
  GenerateRequest asked = trimmed(bench.prompt(200, 8), "window", 10);
  asked.head_tokens = 80;
  const auto refused = bench.engine->submit(asked, std::make_shared<RecordedStream>());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().field, "context.budget_tokens");
  const std::uint32_t least = model::least_trim_budget({.block_size = 16, .head_rows = 80});
  EXPECT_NE(refused.error().message.find("80 tokens"), std::string::npos);
  EXPECT_NE(refused.error().message.find(std::to_string(least)), std::string::npos);
  asked.context.budget_tokens = least;
  EXPECT_GT(bench.run(asked)->last().usage.dropped_tokens, 0U);
  GenerateRequest fits = trimmed(bench.prompt(100, 8), "window", 10);
  fits.head_tokens = 80;
  EXPECT_EQ(bench.run(fits)->last().usage.dropped_tokens, 0U);
}

// ---- one context, without an engine

class Held {
 public:
  Held(ModelBench& bench, TokenList tokens, std::uint32_t more)
      : bench_(bench), tokens_(std::move(tokens)) {
    bench_.engine->stop();
    const kv::ReusePlan plan = bench_.ledger->plan({}, tokens_);
    EXPECT_TRUE(bench_.ledger->admit(id(), plan, length() + more, 0).ok());
    append(tokens_, {});
    bench_.ledger->commit(id());
    bench_.ledger->stop_publishing(id());
  }
  ~Held() {
    bench_.ledger->rollback(id());
    bench_.ledger->release(id(), 0);
    EXPECT_EQ(bench_.ledger->verify(), "");
  }

  SequenceId id() const { return SequenceId{1}; }
  std::uint32_t length() const { return static_cast<std::uint32_t>(tokens_.size()); }
  const kv::BlockTable& table() const { return bench_.ledger->table(id()); }
  model::BatchOutput& output() { return output_; }

  // Computes `tokens` behind what there is. Logits of all rows; the attention of row `asks`.
  void append(const TokenList& tokens, std::optional<std::size_t> asks) {
    const std::uint32_t first = bench_.ledger->length(id());
    bench_.ledger->append(id(), tokens, 0);
    std::vector<float> logits;
    std::vector<model::AttentionMass> mass;
    for (std::size_t done = 0; done < tokens.size();) {
      const std::size_t end = std::min(tokens.size(), done + bench_.executor->max_batch_rows());
      model::Batch batch;
      batch.mass_kind = model::MassKind::kHeadMax;
      batch.sequences.push_back(
          {.table = &table(), .length = first + static_cast<std::uint32_t>(end)});
      for (; done < end; ++done) {
        const auto position = static_cast<Position>(first + done);
        batch.rows.push_back({.token = tokens[done],
                              .position = position,
                              .sequence = 0,
                              .slot = kv::slot_of(table(), position, 16),
                              .wants_logits = true,
                              .wants_mass = asks == done});
      }
      EXPECT_TRUE(bench_.executor->run(batch, output_).ok());
      logits.insert(logits.end(), output_.logits.begin(), output_.logits.end());
      if (!output_.mass.empty()) mass = output_.mass;
    }
    output_.logits = std::move(logits);
    output_.mass = std::move(mass);
  }

 private:
  ModelBench& bench_;
  const TokenList tokens_;
  model::BatchOutput output_;
};

engine::TrimParts parts_of(ModelBench& bench) {
  const model::ModelShape& shape = bench.model->shape();
  return {.ledger = bench.ledger.get(),
          .executor = bench.executor.get(),
          .arena = bench.arena.get(),
          .model = bench.model.get(),
          .can_look = true,
          .layer_count = shape.layer_count,
          .kv_head_count = shape.kv_head_count,
          .vocabulary_size = shape.vocabulary_size,
          .window = shape.sliding_window,
          .repeat_request = bench.tokenizer->encode(engine::kRepeatRequest, {.add_bos = false})};
}

// O-37: the system turn stays where it is, the recent rows begin with a turn, and while an answer
// grows whole turns go.
TEST(TrimTurns, TheHeadStaysAndTheRecentRowsBeginWithATurn) {
  for (const model::TrimPolicy& policy : model::trim_policies()) {
    ModelBench bench("tiny-llama", /*prefix_cache=*/true);
    const engine::TrimParts parts = parts_of(bench);
    Held held(bench, bench.prompt(400, 3), 400);
    engine::TrimmedContext context{.tokens = bench.prompt(400, 3), .head_tokens = 70};
    for (std::uint32_t turn = 70; turn < 400; turn += 26) context.turn_begin.push_back(turn);
    const kv::BlockTable whole = held.table();
    engine::ContextTrim trim(parts, held.id(), policy, context);
    while (trim.looking()) ASSERT_TRUE(trim.look(0).ok());
    ASSERT_TRUE(trim.cut(256, 64, 700).ok());
    const auto begins_a_turn = [&](std::ptrdiff_t block) {
      return std::any_of(context.turn_begin.begin(), context.turn_begin.end(),
                         [&](std::uint32_t turn) { return std::ptrdiff_t{turn / 16} == block; });
    };
    // Behind the head, and what is gathered, the blocks are those of the context again.
    const auto first_recent = [&] {
      const auto found = std::find_first_of(held.table().begin() + 5, held.table().end(),
                                            whole.begin(), whole.end());
      return std::find(whole.begin(), whole.end(), *found) - whole.begin();
    };
    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(held.table()[i], whole[i]) << policy.name;
    if (policy.choice == model::TrimChoice::kBlocks) continue;  // what it keeps are blocks, too
    const auto first = first_recent();
    // Policies that keep few recent rows have no quarter of them to spare.
    const bool few = policy.recent_share < 0.2;
    EXPECT_TRUE(few || begins_a_turn(first)) << policy.name << " " << first;
    for (int i = 0; i < 3; ++i) {
      bench.ledger->append(held.id(), bench.prompt(40, 5), 0);
      bench.ledger->commit(held.id());
      trim.slide(256);
      EXPECT_LE(held.table().size(), 256U / 16);
      EXPECT_TRUE(few || first_recent() == 25 || begins_a_turn(first_recent())) << policy.name;
    }
    EXPECT_GT(first_recent(), first) << policy.name;
  }
}

// The scores of `kvzip` are what they are said to be: the most attention that a row gets from any
// row of the repetition, times how much what that one leads to surprised the model before.
TEST(TrimScores, OfARepetitionCountWhatWasSurprising) {
  ModelBench bench("tiny-llama", /*prefix_cache=*/true);
  const engine::TrimParts parts = parts_of(bench);
  const TokenList context = bench.prompt(60, 4);
  Held held(bench, context, 300);
  const std::size_t width = parts.vocabulary_size;
  std::vector<float> surprise(context.size(), 1.0F);
  for (std::size_t i = 0; i + 1 < context.size(); ++i) {
    const float* row = held.output().logits.data() + i * width;
    double sum = 0;
    for (std::size_t token = 0; token < width; ++token) sum += std::exp(double{row[token]});
    surprise[i] =
        static_cast<float>(std::log(sum) - row[static_cast<std::size_t>(to_int(context[i + 1]))]);
  }
  engine::ContextTrim trim(parts, held.id(), *model::trim_policy_named("kvzip"), {context});
  while (trim.looking()) ASSERT_TRUE(trim.look(0).ok());

  TokenList repetition = parts.repeat_request;
  repetition.insert(repetition.end(), context.begin(), context.end());
  std::vector<float> most(trim.scores().values.size(), 0.0F);
  for (std::size_t i = 0; i < context.size(); ++i) {
    held.append(repetition, parts.repeat_request.size() + i);
    bench.ledger->rollback(held.id());
    const model::AttentionMass& mass = held.output().mass.at(0);
    for (std::size_t head = 0; head * context.size() < most.size(); ++head)
      for (std::size_t key = 0; key < context.size(); ++key) {
        float& at = most[head * context.size() + key];
        at = std::max(at, surprise[i] * mass.weights[head * mass.length + key]);
      }
  }
  ASSERT_EQ(trim.scores().values.size(), most.size());
  for (std::size_t i = 0; i < most.size(); ++i)
    EXPECT_NEAR(trim.scores().values[i], most[i], 1e-4F * (1 + most[i]));
}

// Those of `expected_attention` come from the last 256 rows, whose queries are the same when they
// are computed again, and are those of each layer and head.
TEST(TrimScores, OfExpectedAttentionComeFromTheRecentQueries) {
  for (const char* name : {"tiny-llama", "tiny-gemma3"}) {
    ModelBench bench(name, /*prefix_cache=*/true);
    const engine::TrimParts parts = parts_of(bench);
    const TokenList context = bench.prompt(kPrompt, 4);
    Held held(bench, context, 400);
    model::ExpectedAttention expected(*bench.model);
    for (std::uint32_t done = kPrompt - 256; done < kPrompt;) {
      const std::uint32_t end = std::min(kPrompt, done + bench.executor->max_batch_rows());
      model::Batch batch;
      batch.sequences.push_back({.table = &held.table(), .length = end});
      std::vector<Position> positions;
      for (; done < end; ++done) {
        positions.push_back(static_cast<Position>(done));
        batch.rows.push_back({.token = context[done],
                              .position = positions.back(),
                              .sequence = 0,
                              .slot = kv::slot_of(held.table(), positions.back(), 16),
                              .wants_logits = true,
                              .wants_queries = true});
      }
      ASSERT_TRUE(bench.executor->run(batch, held.output()).ok());
      expected.add(held.output().queries, positions);
    }
    expected.expect_from(kPrompt);
    engine::ContextTrim trim(parts, held.id(), *model::trim_policy_named("expected_attention"),
                             {context});
    while (trim.looking()) ASSERT_TRUE(trim.look(0).ok());
    std::vector<std::size_t> slots;
    for (std::uint32_t row = 0; row < kPrompt; ++row)
      slots.push_back(kv::slot_of(held.table(), static_cast<Position>(row), 16));
    std::vector<float> scores(kPrompt);
    for (std::uint32_t layer = 0; layer < parts.layer_count; ++layer) {
      for (std::uint32_t head = 0; head < parts.kv_head_count; ++head) {
        expected.score(layer, head, *bench.arena, slots, scores);
        const std::span<const float> found = trim.scores().of(layer, head);
        EXPECT_EQ(std::vector<float>(found.begin(), found.end()), scores) << name;
      }
    }
  }
}

}  // namespace
}  // namespace refrain::test
