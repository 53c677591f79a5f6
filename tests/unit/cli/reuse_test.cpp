// Parts of eval reuse: cases, errors of rows, figures.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "cli/reuse_cases.h"
#include "cli/reuse_report.h"
#include "cli/row_errors.h"

namespace refrain::cli {
namespace {

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
