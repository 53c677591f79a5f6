// Parts of eval reuse: cases, the search for runs, errors of rows, figures.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/rng.h"
#include "cli/reuse_cases.h"
#include "cli/reuse_report.h"
#include "cli/row_errors.h"
#include "cli/run_search.h"

namespace refrain::cli {
namespace {

TokenList tokens(std::uint32_t count, std::uint64_t seed, std::uint32_t vocabulary = 5000) {
  Rng rng(seed);
  TokenList list;
  for (std::uint32_t i = 0; i < count; ++i)
    list.push_back(TokenId{static_cast<std::int32_t>(rng.below(vocabulary))});
  return list;
}

TokenList joined(std::initializer_list<TokenList> parts) {
  TokenList all;
  for (const TokenList& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

void expect_equal_tokens(const FoundRun& run, const TokenList& stored, const TokenList& prompt) {
  for (std::uint32_t i = 0; i < run.length; ++i) {
    ASSERT_EQ(stored[static_cast<std::size_t>(run.from) + i],
              prompt[static_cast<std::size_t>(run.to) + i]);
  }
}

TEST(RunSearch, FindsDocumentsInAnotherOrderBehindTheCommonBeginning) {
  const TokenList head = tokens(40, 1), a = tokens(200, 2), b = tokens(150, 3), c = tokens(100, 4);
  const TokenList stored = joined({head, a, b, c, tokens(20, 5)});
  const TokenList prompt = joined({head, c, tokens(7, 6), a, b, tokens(30, 7)});
  RunSearch search;
  search.add(stored);
  const FoundTokens found = search.find(prompt);
  EXPECT_EQ(found.prefix.length, 40U);
  ASSERT_EQ(found.runs.size(), 2U);
  EXPECT_EQ(found.runs[0].to, 40);
  EXPECT_EQ(found.runs[0].from, 390);
  EXPECT_EQ(found.runs[0].length, 100U);
  EXPECT_EQ(found.runs[1].to, 147);
  EXPECT_EQ(found.runs[1].length, 350U) << "neighbours that stay together are one run";
  for (const FoundRun& run : found.runs) expect_equal_tokens(run, stored, prompt);
}

TEST(RunSearch, TakesTheLongestOfSeveralAndLeavesTheLastTokenAndShortRuns) {
  const TokenList a = tokens(200, 1);
  RunSearch search;
  search.add(joined({tokens(9, 2), TokenList(a.begin(), a.begin() + 100), tokens(50, 3)}));
  search.add(joined({tokens(5, 4), a}));
  const FoundTokens found = search.find(joined({tokens(30, 5), a}));
  ASSERT_EQ(found.runs.size(), 1U);
  EXPECT_EQ(found.runs[0].stored, 1U);
  EXPECT_EQ(found.runs[0].length, 199U);
  const TokenList brief(a.begin(), a.begin() + kLeastRun - 1);
  EXPECT_TRUE(search.find(joined({tokens(30, 5), brief, tokens(10, 6)})).runs.empty());
  EXPECT_EQ(search.find(joined({tokens(5, 4), a})).prefix.length, 204U);
}

TEST(RunSearch, FindsNothingInNothingAndCopesWithOneRepeatedToken) {
  RunSearch search;
  EXPECT_EQ(search.find(tokens(500, 1)).prefix.length, 0U);
  EXPECT_TRUE(search.find(TokenList{TokenId{1}}).runs.empty());
  search.add(TokenList(3000, TokenId{7}));
  const TokenList prompt = joined({tokens(3, 2), TokenList(4000, TokenId{7})});
  const FoundTokens found = search.find(prompt);
  ASSERT_FALSE(found.runs.empty());
  EXPECT_EQ(found.runs[0].length, 3000U);
}

TEST(RowErrors, AreDivergencesAndAgreementOfRows) {
  const std::vector<float> expected = {0.0F, 1.0F, 0.0F, 0.0F, 2.0F, 0.0F};
  EXPECT_TRUE(compare_rows(expected, expected, 3).same_bits);
  std::vector<float> actual = expected;
  actual[0] += 3.0F;  // row 0 prefers another token
  const RowErrors errors = compare_rows(expected, actual, 3);
  EXPECT_FALSE(errors.same_bits);
  EXPECT_EQ(errors.agreeing, 1U);
  EXPECT_EQ(errors.common_prefix, 0U);
  const double p[] = {1.0, std::exp(1.0), 1.0}, q[] = {std::exp(3.0), std::exp(1.0), 1.0};
  const double sum_p = p[0] + p[1] + p[2], sum_q = q[0] + q[1] + q[2];
  double kl = 0;
  for (int i = 0; i < 3; ++i) kl += p[i] / sum_p * std::log(p[i] / sum_p / (q[i] / sum_q));
  EXPECT_NEAR(errors.kl[0], kl, 1e-9);
  EXPECT_EQ(errors.kl[1], 0.0);
  // A shift of all logits is no error of the distribution.
  std::vector<float> shifted = expected;
  for (float& x : shifted) x += 10.0F;
  EXPECT_LT(compare_rows(expected, shifted, 3).kl[0], 1e-9);
}

TEST(ReuseCases, AreReadFromLinesOfBothKinds) {
  const auto cases = parse_reuse_cases(
      R"({"system": "S", "documents": ["A", "B"], "warm_orders": [[1, 0], [1]], "question": "Q?"})"
      "\n\n"
      R"({"messages": [{"role": "user", "content": "old"}],)"
      R"( "edited_messages": [{"role": "user", "content": "new"}]})");
  ASSERT_TRUE(cases.ok()) << cases.error().message;
  ASSERT_EQ(cases->size(), 2U);
  const ReuseCase& first = (*cases)[0];
  EXPECT_EQ(first.kind, ReuseKind::kRecombined);
  ASSERT_EQ(first.warm.size(), 2U);
  EXPECT_EQ(first.target[0].content, "S");
  EXPECT_EQ(first.target[1].content, "A\n\nB\n\nQ?");
  EXPECT_EQ(first.warm[0][1].content.find("B\n\nA\n\n"), 0U);
  EXPECT_EQ(first.warm[0][1].content.find("Q?"), std::string::npos);
  EXPECT_EQ((*cases)[1].kind, ReuseKind::kEdited);
  EXPECT_EQ((*cases)[1].warm[0][0].content, "old");
}

TEST(ReuseCases, AWrongLineIsNamed) {
  const std::string good = R"({"documents": ["A"], "warm_orders": [[0]], "question": "Q"})"
                           "\n";
  for (const std::string& bad : std::vector<std::string>{
           "{", "[]", "{}", R"({"documents": [], "warm_orders": [[0]], "question": "Q"})",
           R"({"documents": ["A"], "warm_orders": [[1]], "question": "Q"})",
           R"({"documents": ["A"], "warm_orders": [[-1]], "question": "Q"})",
           R"({"documents": ["A"], "warm_orders": [0], "question": "Q"})",
           R"({"documents": [1], "warm_orders": [[0]], "question": "Q"})",
           R"({"documents": ["A"], "warm_orders": [[0]]})", R"({"messages": [{"role": "user"}]})",
           R"({"messages": [{"role": "user", "content": "x"}]})", R"({"messages": ["x"]})",
           R"({"messages": "x"})"}) {
    const auto cases = parse_reuse_cases(good + bad);
    ASSERT_FALSE(cases.ok()) << bad;
    EXPECT_EQ(cases.error().code, Code::kInvalidArgument);
    EXPECT_EQ(cases.error().message.find("line 2: "), 0U) << cases.error().message;
  }
  EXPECT_FALSE(parse_reuse_cases("\n \n").ok());
}

TEST(ReuseCases, GeneratedOnesAreTheSameForASeedAndKeepTheirDocuments) {
  const std::vector<ReuseCase> cases = generate_reuse_cases(3, 2);
  ASSERT_EQ(cases.size(), 4U);
  const std::vector<ReuseCase> again = generate_reuse_cases(3, 2);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(cases[i].target.back().content, again[i].target.back().content);
    EXPECT_NE(cases[i].target.back().content, cases[i].warm[0].back().content);
    const std::size_t words = static_cast<std::size_t>(std::count(
        cases[i].target.back().content.begin(), cases[i].target.back().content.end(), ' '));
    EXPECT_GT(words, 1500U);
  }
  EXPECT_NE(cases[0].target.back().content, cases[1].target.back().content);
  // Every paragraph of a recombined case stood in the earlier request.
  const std::string& target = cases[0].target.back().content;
  const std::string& warm = cases[0].warm[0].back().content;
  for (std::size_t at = 0, end; (end = target.find("\n\n", at)) != std::string::npos; at = end + 2)
    EXPECT_NE(warm.find(target.substr(at, end - at)), std::string::npos);
}

ReuseResult result(std::vector<double> kl, std::size_t agreeing, Tick ttft, bool same_bits) {
  ReuseResult one{.kind = ReuseKind::kEdited, .cold_again = {}, .dropped = {}, .rungs = {}};
  one.prompt_tokens = 100;
  one.moved_tokens = 50;
  one.cold_ttft = 1000;
  one.dropped.kl = {1.0};
  one.rungs.push_back({.rung = model::RepairRung::kAll,
                       .errors = {std::move(kl), agreeing, agreeing, same_bits},
                       .repaired_rows = 25,
                       .ttft = ttft});
  return one;
}

TEST(ReuseReport, AveragesRowsOfAllCasesAndCountsInexactOnes) {
  std::vector<ReuseResult> results = {result({0.1, 0.3}, 1, 200, true),
                                      result({0.2, 0.4}, 2, 400, true)};
  const std::vector<KindFigures> figures = reuse_figures(results);
  ASSERT_EQ(figures.size(), 1U);
  const RungFigures& rung = figures[0].rungs[0];
  EXPECT_NEAR(rung.errors.kl_mean, 0.25, 1e-12);
  EXPECT_EQ(rung.errors.kl_p95, 0.4);
  EXPECT_EQ(rung.errors.top1, 0.75);
  EXPECT_EQ(rung.repaired_share, 0.5);
  EXPECT_NEAR(rung.ratio, 0.3, 1e-12);
  EXPECT_EQ(inexact_cases(results), 0U);
  results[0].rungs[0].errors.same_bits = false;
  EXPECT_EQ(inexact_cases(results), 1U);
  results[1].cold_again.same_bits = false;
  EXPECT_EQ(inexact_cases(results), 2U);
}

}  // namespace
}  // namespace refrain::cli
