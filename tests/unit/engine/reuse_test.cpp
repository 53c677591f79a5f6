// Text at other places through the engine, on real operators: what is moved and repaired is said,
// what is refused is computed, and nothing of it is ever taken for exact (A4, A13).
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <thread>

#include "engine/audit_book.h"
#include "engine/prompt_repair.h"
#include "support/model_bench.h"

namespace refrain::test {
namespace {

using engine::ReuseMode;
using engine::ReuseRefusal;
using engine::Usage;

constexpr double kNever = 1e9, kAlways = 0.0;  // slopes of gates that refuse or accept everything

TokenList joined(std::initializer_list<TokenList> parts) {
  TokenList all;
  for (const TokenList& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// A system text, two passages and a question; and the same with the passages exchanged.
struct Passages {
  explicit Passages(const ModelBench& bench, std::uint64_t seed = 0)
      : head(bench.prompt(37, seed + 1)),
        a(bench.prompt(150, seed + 200)),
        b(bench.prompt(131, seed + 400)),
        first(joined({head, a, b, bench.prompt(20, seed + 600)})),
        second(joined({head, b, a, bench.prompt(23, seed + 700)})) {}
  TokenList head, a, b, first, second;
};

GenerateRequest asking(TokenList prompt, ReuseMode mode, std::uint32_t tokens = 8) {
  GenerateRequest request = greedy(std::move(prompt), tokens);
  request.sampling.top_logprobs = 3;
  request.reuse.mode = mode;
  return request;
}

void expect_whole(const Usage& usage) {
  EXPECT_EQ(usage.prompt_tokens, usage.cached_tokens + usage.moved_tokens + usage.repaired_tokens +
                                     usage.computed_tokens);
}

std::vector<float> logprobs(const RecordedStream& stream) {
  std::vector<float> all;
  for (const engine::TokenLogprob& item : stream.logprobs()) {
    all.push_back(item.logprob);
    for (const auto& other : item.top) all.push_back(other.logprob);
  }
  return all;
}

void expect_same_answer(const RecordedStream& one, const RecordedStream& other) {
  EXPECT_EQ(one.tokens(), other.tokens());
  EXPECT_EQ(logprobs(one), logprobs(other)) << "to the bit";
}

bool wait_for_audits(const ModelBench& bench, std::uint64_t count) {
  for (int i = 0; i < 3000 && bench.engine->snapshot().audits < count; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return bench.engine->snapshot().audits >= count;
}

class MovedText : public testing::TestWithParam<BenchModel> {};

TEST_P(MovedText, A4IsMovedInSpliceModeAndNeverTakenForExact) {
  ModelBench bench(GetParam(), /*prefix_cache=*/true);
  ModelBench cold(GetParam(), /*prefix_cache=*/false);
  const Passages text(bench);
  bench.run(asking(text.first, ReuseMode::kExact));
  auto moved = bench.run(asking(text.second, ReuseMode::kSplice));
  ASSERT_FALSE(moved->failed()) << moved->last().error.message;
  const Usage usage = moved->last().usage;
  expect_whole(usage);
  EXPECT_EQ(usage.cached_tokens, bench.reusable(37));
  EXPECT_EQ(usage.moved_tokens, 281U);
  EXPECT_EQ(usage.repaired_tokens, 0U);
  EXPECT_EQ(usage.computed_tokens, 23 + 37 - bench.reusable(37));
  EXPECT_FALSE(usage.divergence_estimate) << "nothing judges it";
  auto exact = bench.run(asking(text.second, ReuseMode::kExact));
  EXPECT_EQ(exact->last().usage.cached_tokens, bench.reusable(37)) << "no moved row may be found";
  expect_same_answer(*exact, *cold.run(asking(text.second, ReuseMode::kExact)));
}

TEST_P(MovedText, A4IsRepairedWhereTheGateAllowsIt) {
  ModelBench bench(GetParam(), /*prefix_cache=*/true, /*budget=*/48, kAlways);
  const Passages text(bench);
  bench.run(asking(text.first, ReuseMode::kExact));
  auto repaired = bench.run(asking(text.second, ReuseMode::kRepair));
  ASSERT_FALSE(repaired->failed()) << repaired->last().error.message;
  const Usage usage = repaired->last().usage;
  expect_whole(usage);
  EXPECT_GT(usage.moved_tokens, 200U);
  EXPECT_GE(usage.repaired_tokens, 2 * model::kProbesPerRun) << "the probes are computed";
  EXPECT_EQ(usage.divergence_estimate, 0.0);
  EXPECT_EQ(usage.refusal, ReuseRefusal::kNone);
}

TEST_P(MovedText, WhatTheGateRefusesIsComputedToTheBit) {
  ModelBench bench(GetParam(), /*prefix_cache=*/true, /*budget=*/48, kNever);
  ModelBench cold(GetParam(), /*prefix_cache=*/false);
  const Passages text(bench);
  bench.run(asking(text.first, ReuseMode::kExact));
  auto refused = bench.run(asking(text.second, ReuseMode::kRepair));
  const Usage usage = refused->last().usage;
  expect_whole(usage);
  EXPECT_EQ(usage.refusal, ReuseRefusal::kDivergence);
  EXPECT_EQ(usage.moved_tokens + usage.repaired_tokens, 0U);
  expect_same_answer(*refused, *cold.run(asking(text.second, ReuseMode::kExact)));
  auto again = bench.run(asking(text.second, ReuseMode::kExact));
  EXPECT_EQ(again->last().usage.cached_tokens, bench.reusable(text.second.size() - 1))
      << "and is kept as exact";
  expect_same_answer(*again, *refused);
}

// The same lead is a near tie to a gate that expects margins to be far off.
TEST_P(MovedText, ANearTieOfAGreedyAnswerIsComputedToTheBit) {
  constexpr double kSlope = 0.01, kVariance = 1e9;
  ModelBench bench(GetParam(), /*prefix_cache=*/true, /*budget=*/48, kSlope, /*idle=*/false);
  ModelBench cold(GetParam(), /*prefix_cache=*/false);
  const Passages text(bench);
  bench.run(asking(text.first, ReuseMode::kExact));
  const auto ask_with = [&](double variance, GenerateRequest request) {
    model::ReuseGate::Slopes slopes;
    for (auto& of_change : slopes) of_change.fill(kSlope);
    *bench.gate = model::ReuseGate(slopes, variance);
    return bench.run(std::move(request));
  };
  GenerateRequest sampled = asking(text.second, ReuseMode::kRepair);
  sampled.sampling.temperature = 1.0F;
  GenerateRequest careless = asking(text.second, ReuseMode::kRepair);
  careless.reuse.max_changed_first_tokens = 1.0;
  for (const GenerateRequest& free : {sampled, careless}) {
    const Usage usage = ask_with(kVariance, free)->last().usage;
    EXPECT_EQ(usage.refusal, ReuseRefusal::kNone);
    EXPECT_GT(usage.moved_tokens, 200U);
  }
  auto refused = ask_with(kVariance, asking(text.second, ReuseMode::kRepair));
  const Usage usage = refused->last().usage;
  expect_whole(usage);
  EXPECT_EQ(usage.refusal, ReuseRefusal::kNearTie);
  EXPECT_EQ(usage.moved_tokens + usage.repaired_tokens, 0U);
  expect_same_answer(*refused, *cold.run(asking(text.second, ReuseMode::kExact)));
}

// An approximate answer whose smallest lead is not that of its first token.
struct LateTie {
  Passages text;
  TokenList tokens;
  std::size_t at = 0;          // of the smallest lead
  double least = 0, next = 0;  // logits: that lead, and the smallest one before it
  double estimate = 0;         // nats
};

std::optional<LateTie> find_late_tie(const BenchModel& model, double slope,
                                     GenerateRequest (*ask)(const Passages&)) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    ModelBench bench(model, /*prefix_cache=*/true, /*budget=*/48, slope);
    const Passages text(bench, seed);
    bench.run(asking(text.first, ReuseMode::kExact));
    auto answer = bench.run(ask(text));  // its gate knows of no margins
    if (!answer->last().usage.divergence_estimate) continue;
    std::vector<double> leads;
    for (const engine::TokenLogprob& item : answer->logprobs())
      leads.push_back(double{item.top[0].logprob} - double{item.top[1].logprob});
    const auto least = std::min_element(leads.begin(), leads.end());
    if (least == leads.begin()) continue;
    return LateTie{text,
                   answer->tokens(),
                   static_cast<std::size_t>(least - leads.begin()),
                   *least,
                   *std::min_element(leads.begin(), least),
                   *answer->last().usage.divergence_estimate};
  }
  return std::nullopt;
}

// A limit between the smallest lead and the others: the answer begins approximately and goes on
// exactly, behind what it has said.
TEST_P(MovedText, ANearTieWithinAnAnswerIsComputedFromThere) {
  constexpr double kSlope = 0.01, kLimit = 0.2;
  constexpr double kDeviations = 0.8416;  // P(N > kDeviations) = kLimit
  constexpr std::uint32_t kTokens = 16;
  const auto ask = [](const Passages& text) {
    GenerateRequest asked = asking(text.second, ReuseMode::kRepair, kTokens);
    asked.reuse.max_changed_first_tokens = kLimit;
    return asked;
  };
  const std::optional<LateTie> tie = find_late_tie(GetParam(), kSlope, ask);
  ASSERT_TRUE(tie) << "no answer whose first token leads by more than another one";
  const Passages& text = tie->text;
  const auto before = static_cast<std::ptrdiff_t>(tie->at);
  const double deviation = (tie->least + tie->next) / 2 / kDeviations;
  const double variance = deviation * deviation / tie->estimate;

  ModelBench bench(GetParam(), /*prefix_cache=*/true, /*budget=*/48, kSlope);
  model::ReuseGate::Slopes slopes;
  for (auto& of_change : slopes) of_change.fill(kSlope);
  *bench.gate = model::ReuseGate(slopes, variance);
  bench.run(asking(text.first, ReuseMode::kExact));
  auto watched = bench.run(ask(text));
  ASSERT_FALSE(watched->failed()) << watched->last().error.message;
  const Usage usage = watched->last().usage;
  expect_whole(usage);
  EXPECT_EQ(usage.refusal, ReuseRefusal::kNearTie);
  EXPECT_EQ(usage.moved_tokens + usage.repaired_tokens, 0U);
  EXPECT_EQ(usage.cached_tokens, bench.reusable(37));
  EXPECT_FALSE(usage.divergence_estimate) << "what the rest is sampled from is exact";
  TokenList said = watched->tokens();
  ASSERT_EQ(said.size(), kTokens);
  const TokenList begun(said.begin(), said.begin() + before);
  EXPECT_EQ(begun, TokenList(tie->tokens.begin(), tie->tokens.begin() + before));
  ModelBench cold(GetParam(), /*prefix_cache=*/false);
  auto exact = cold.run(asking(joined({text.second, begun}), ReuseMode::kExact,
                               kTokens - static_cast<std::uint32_t>(before)));
  EXPECT_EQ(exact->tokens(), TokenList(said.begin() + before, said.end()));
  // The whole dialogue is exact now.
  auto next = bench.run(asking(joined({text.second, said, text.head}), ReuseMode::kExact));
  EXPECT_GE(next->last().usage.cached_tokens, bench.reusable(text.second.size() + said.size() - 1));
}

TEST_P(MovedText, O05WithoutCalibrationIsComputedAndTheAnswerSaysWhy) {
  ModelBench bench(GetParam(), /*prefix_cache=*/true);
  ModelBench cold(GetParam(), /*prefix_cache=*/false);
  const Passages text(bench);
  bench.run(asking(text.first, ReuseMode::kRepair));
  auto computed = bench.run(asking(text.second, ReuseMode::kRepair));
  EXPECT_EQ(computed->last().usage.refusal, ReuseRefusal::kUncalibrated);
  EXPECT_EQ(computed->last().usage.moved_tokens, 0U);
  expect_same_answer(*computed, *cold.run(asking(text.second, ReuseMode::kExact)));
}

TEST_P(MovedText, O05AChangeThatWasNotMeasuredIsNotEvenLookedAt) {
  ModelBench bench(GetParam(), /*prefix_cache=*/true, /*budget=*/48, kAlways);
  const Passages text(bench);
  // The runs of exchanged passages are recombined, and this gate knows edited context alone.
  model::ReuseGate::Slopes edited;
  edited[static_cast<std::size_t>(model::ContextChange::kEdited)].fill(kAlways);
  *bench.gate = model::ReuseGate(edited);
  bench.run(asking(text.first, ReuseMode::kExact));
  const Usage usage = bench.run(asking(text.second, ReuseMode::kRepair))->last().usage;
  EXPECT_EQ(usage.refusal, ReuseRefusal::kUncalibrated);
  EXPECT_EQ(usage.moved_tokens + usage.repaired_tokens, 0U);
}

TEST_P(MovedText, BatchMatesOfARepairAnswerAsIfAlone) {
  ModelBench bench(GetParam(), /*prefix_cache=*/true, /*budget=*/29, kAlways);
  ModelBench cold(GetParam(), /*prefix_cache=*/false);
  const Passages text(bench);
  bench.run(asking(text.first, ReuseMode::kExact));
  auto long_one = bench.submit(asking(text.first, ReuseMode::kExact, 40));
  auto repaired = bench.submit(asking(text.second, ReuseMode::kRepair, 20));
  const TokenList other = bench.prompt(90, 5000);
  auto mate = bench.submit(asking(other, ReuseMode::kExact, 20));
  ASSERT_TRUE(long_one->wait() && repaired->wait() && mate->wait());
  ASSERT_FALSE(repaired->failed()) << repaired->last().error.message;
  expect_same_answer(*long_one, *cold.run(asking(text.first, ReuseMode::kExact, 40)));
  expect_same_answer(*mate, *cold.run(asking(other, ReuseMode::kExact, 20)));
}

TEST_P(MovedText, A13TheTailOfAHistoryCutAtItsFrontIsFound) {
  ModelBench bench(GetParam(), /*prefix_cache=*/true, /*budget=*/48, kAlways);
  const TokenList system = bench.prompt(30, 1), old = bench.prompt(100, 90),
                  turns = bench.prompt(300, 300);
  bench.run(asking(joined({system, old, turns}), ReuseMode::kExact));
  auto cut = bench.run(asking(joined({system, turns, bench.prompt(12, 800)}), ReuseMode::kRepair));
  const Usage usage = cut->last().usage;
  expect_whole(usage);
  EXPECT_EQ(usage.cached_tokens, bench.reusable(30));
  EXPECT_EQ(usage.moved_tokens + usage.repaired_tokens, 300U);
}

TEST_P(MovedText, SeveralChoicesAndCancelledRequestsLeaveTheBooksInOrder) {
  ModelBench bench(GetParam(), /*prefix_cache=*/true, /*budget=*/16, kAlways);
  const Passages text(bench);
  bench.run(asking(text.first, ReuseMode::kExact));
  GenerateRequest many = asking(text.second, ReuseMode::kRepair);
  many.choice_count = 3;
  auto stream = bench.run(many);
  EXPECT_FALSE(stream->failed());
  for (std::uint64_t i = 0; i < 8; ++i) {
    auto cancelled = std::make_shared<RecordedStream>();
    const TokenList prompt = joined({text.head, text.b, bench.prompt(5 + i, i), text.a});
    const auto id = bench.engine->submit(asking(prompt, ReuseMode::kRepair), cancelled);
    ASSERT_TRUE(id.ok());
    if (i % 2 == 0) bench.engine->cancel(*id);
    ASSERT_TRUE(cancelled->wait());
  }
  bench.engine->stop();
  EXPECT_EQ(bench.ledger->verify(), "");
  EXPECT_EQ(bench.ledger->counts().pinned, 0U);
}

TEST_P(MovedText, A4TheNextTurnOfARepairedDialogueFindsItInTheSecondTree) {
  ModelBench bench(GetParam(), /*prefix_cache=*/true, /*budget=*/48, kAlways, /*idle=*/false);
  ModelBench cold(GetParam(), /*prefix_cache=*/false);
  const Passages text(bench);
  bench.run(asking(text.first, ReuseMode::kExact));
  auto repaired = bench.run(asking(text.second, ReuseMode::kRepair));
  ASSERT_GT(repaired->last().usage.moved_tokens, 0U);
  const TokenList next = joined({text.second, repaired->tokens(), bench.prompt(9, 3000)});
  const Usage usage = bench.run(asking(next, ReuseMode::kRepair))->last().usage;
  expect_whole(usage);
  EXPECT_GE(usage.cached_tokens + usage.moved_tokens, text.second.size());
  // All of it but the reply's last token, which has no row yet.
  const std::size_t known = text.second.size() + repaired->tokens().size();
  EXPECT_GE(static_cast<double>(usage.cached_tokens + usage.moved_tokens),
            0.95 * static_cast<double>(known));
  EXPECT_EQ(usage.repaired_tokens, 0U) << "it need not be repaired again";
  EXPECT_TRUE(usage.divergence_estimate);
  auto exact = bench.run(asking(next, ReuseMode::kExact));
  EXPECT_EQ(exact->last().usage.cached_tokens, bench.reusable(37))
      << "who asks for exact context sees none of it";
  expect_same_answer(*exact, *cold.run(asking(next, ReuseMode::kExact)));
}

TEST_P(MovedText, AFewSparedRowsAreNotWorthAnApproximation) {
  ModelBench bench(GetParam(), /*prefix_cache=*/true, /*budget=*/48, kAlways);
  ModelBench cold(GetParam(), /*prefix_cache=*/false);
  const TokenList boilerplate = bench.prompt(100, 1);
  bench.run(asking(joined({bench.prompt(50, 200), boilerplate, bench.prompt(20, 300)}),
                   ReuseMode::kExact));
  const TokenList prompt = joined({bench.prompt(250, 400), boilerplate, bench.prompt(100, 700)});
  auto stream = bench.run(asking(prompt, ReuseMode::kRepair));
  EXPECT_EQ(stream->last().usage.moved_tokens + stream->last().usage.repaired_tokens, 0U);
  EXPECT_EQ(stream->last().usage.refusal, ReuseRefusal::kNone);
  expect_same_answer(*stream, *cold.run(asking(prompt, ReuseMode::kExact)));
}

TEST_P(MovedText, IdleTimeComputesTheExactVersionAndComparesIt) {
  ModelBench bench(GetParam(), /*prefix_cache=*/true, /*budget=*/48, kAlways);
  ModelBench cold(GetParam(), /*prefix_cache=*/false);
  const Passages text(bench);
  bench.run(asking(text.first, ReuseMode::kExact));
  auto repaired = bench.run(asking(text.second, ReuseMode::kRepair));
  ASSERT_GT(repaired->last().usage.moved_tokens, 0U);
  ASSERT_TRUE(wait_for_audits(bench, 1)) << "nobody waited, and nothing was compared";
  EXPECT_GE(bench.engine->snapshot().idle_tokens, text.second.size() - 37);
  EXPECT_EQ(bench.metrics.value(metrics::Metric::kIdleTokens),
            static_cast<double>(bench.engine->snapshot().idle_tokens));
  EXPECT_EQ(bench.metrics.value(metrics::Metric::kReuseAudits, "agree") +
                bench.metrics.value(metrics::Metric::kReuseAudits, "differ"),
            1.0);
  auto exact = bench.run(asking(text.second, ReuseMode::kExact));
  EXPECT_EQ(exact->last().usage.cached_tokens, bench.reusable(text.second.size() - 1));
  expect_same_answer(*exact, *cold.run(asking(text.second, ReuseMode::kExact)));
}

// A gate that expects no error at all, for requests that allow none: each audit shows one.
TEST(BrokenPromise, EndsApproximateReuseAndSaysSo) {
  ModelBench bench("tiny-llama", /*prefix_cache=*/true, /*budget=*/48, kAlways);
  const auto ask = [&](std::uint64_t i) {
    const TokenList head = bench.prompt(20, 100'000 * i), a = bench.prompt(90, 100'000 * i + 300),
                    b = bench.prompt(80, 100'000 * i + 600), end = bench.prompt(12, 9'000 + i);
    bench.run(asking(joined({head, a, b, end}), ReuseMode::kExact, 1));
    GenerateRequest moved = asking(joined({head, b, a, end}), ReuseMode::kRepair, 1);
    moved.reuse.max_divergence = 0.0;
    return bench.run(std::move(moved))->last().usage;
  };
  for (std::uint64_t i = 1; i <= engine::AuditBook::kLeast; ++i) {
    EXPECT_EQ(bench.metrics.value(metrics::Metric::kReusePromiseBroken), 0.0);
    EXPECT_GT(ask(i).moved_tokens, 0U);
    ASSERT_TRUE(wait_for_audits(bench, i));
  }
  EXPECT_EQ(bench.metrics.value(metrics::Metric::kReusePromiseBroken), 1.0);
  EXPECT_TRUE(bench.engine->snapshot().promise_broken);
  const Usage usage = ask(1000);
  EXPECT_EQ(usage.moved_tokens, 0U);
  EXPECT_EQ(usage.refusal, ReuseRefusal::kUncalibrated);
}

TEST(IdleWork, IsLeftOutWhereItIsSwitchedOff) {
  ModelBench bench("tiny-llama", /*prefix_cache=*/true, /*budget=*/48, kAlways, /*idle=*/false);
  const Passages text(bench);
  bench.run(asking(text.first, ReuseMode::kExact));
  ASSERT_GT(bench.run(asking(text.second, ReuseMode::kRepair))->last().usage.moved_tokens, 0U);
  // What the engine does when nobody waits, it would do before it rests and takes this.
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  bench.run(asking(bench.prompt(5, 77), ReuseMode::kExact));
  EXPECT_EQ(bench.engine->snapshot().idle_tokens, 0U);
  EXPECT_EQ(bench.metrics.value(metrics::Metric::kIdleTokens), 0.0);
}

INSTANTIATE_TEST_SUITE_P(Architectures, MovedText,
                         testing::Values("tiny-llama", "tiny-qwen3", "tiny-gemma3",
                                         BenchModel("tiny-llama", model::KvFormat::kQ8Q4)),
                         [](const auto& test) {
                           return test.param.name.substr(5) +
                                  (test.param.format == model::KvFormat::kF16 ? "" : "_q8_q4");
                         });

TEST(ContextChange, IsEditedWhereOrderAndNeighboursStayNearlyTheSame) {
  using kv::SegmentRun;
  using model::ContextChange;
  const auto change = [](std::vector<SegmentRun> runs) { return engine::change_of(runs); };
  // A timestamp at the top: less than a block stands in front, none of it known.
  EXPECT_EQ(change({{.begin = 14, .length = 1500, .source_begin = 12}}), ContextChange::kEdited);
  EXPECT_EQ(change({{.begin = 728, .length = 2328, .source_begin = 746, .known_context = 0.96F}}),
            ContextChange::kEdited);
  // A new document in front of an old one.
  EXPECT_EQ(change({{.begin = 540, .length = 500, .source_begin = 40, .known_context = 1.0F}}),
            ContextChange::kRecombined);
  // Everything of the last one's old context stands in front of it, in another order.
  EXPECT_EQ(change({{.begin = 34, .length = 500, .source_begin = 534, .known_context = 0.06F},
                    {.begin = 534, .length = 500, .source_begin = 34, .known_context = 1.0F}}),
            ContextChange::kRecombined);
}

TEST(AuditBook, BreaksWhereTheMeanIsAboveWhatWasAllowedAndStaysSo) {
  engine::AuditBook book;
  for (std::size_t i = 0; i + 1 < engine::AuditBook::kLeast; ++i)
    book.add({.divergence = 1.0, .allowed = 0.05});
  EXPECT_FALSE(book.broken()) << "too few to judge";
  book.add({.divergence = 1.0, .allowed = 0.05});
  EXPECT_TRUE(book.broken());
  for (int i = 0; i < 200; ++i) book.add({.divergence = 0.0, .allowed = 0.05});
  EXPECT_TRUE(book.broken());
  engine::AuditBook fine;
  for (int i = 0; i < 200; ++i) fine.add({.divergence = 0.04, .allowed = 0.05});
  EXPECT_FALSE(fine.broken());
  fine.add({.divergence = std::nan(""), .allowed = 0.05});
  EXPECT_TRUE(fine.broken()) << "what is no number keeps no promise";
}

TEST(AuditBook, ComparesTheFirstToken) {
  const std::vector<float> exact = {1.0F, 3.0F, 0.0F}, other = {3.0F, 1.0F, 0.0F};
  EXPECT_EQ(engine::compare_first_token(exact, exact, 0.1).divergence, 0.0);
  const engine::Audit audit = engine::compare_first_token(exact, other, 0.1);
  EXPECT_FALSE(audit.same_first_token);
  const double sum = std::exp(1.0) + std::exp(3.0) + 1.0;
  EXPECT_NEAR(audit.divergence, 2.0 * (std::exp(3.0) - std::exp(1.0)) / sum, 1e-6);
}

}  // namespace
}  // namespace refrain::test
