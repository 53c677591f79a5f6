// Parts of eval reuse: cases, errors of rows, figures.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "cli/reuse_cases.h"
#include "cli/reuse_report.h"
#include "cli/row_errors.h"
#include "engine/distribution.h"

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

TEST(RowErrors, TheDivergenceOfRowsWithoutNumbersIsNone) {
  const std::vector<float> expected = {1.0F, 2.0F, 0.5F};
  for (const std::size_t at : {0U, 1U, 2U}) {
    std::vector<float> actual = expected;
    actual[at] = std::nanf("");
    EXPECT_TRUE(std::isnan(engine::divergence(expected, actual))) << at;
  }
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
           R"({"messages": "x"})", R"({"kind": "other"})",
           R"({"kind": "edited", "warm": [], "target": [{"role": "user", "content": "x"}]})",
           R"({"kind": "edited", "warm": ["x"], "target": [{"role": "user", "content": "x"}]})",
           R"({"kind": "changed", "warm": [[{"role": "user", "content": "x"}]],)"
           R"( "target": [{"role": "user", "content": "x"}]})",
           R"({"kind": "copied", "warm": [[{"role": "user", "content": "x"}]],)"
           R"( "target": [{"role": "user", "content": "x"}]})"}) {
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

std::string all_text(const Messages& messages) {
  std::string all;
  for (const text::ChatMessage& message : messages) all += message.role + message.content + "\n";
  return all;
}

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
  return count;
}

TEST(ReuseCases, ChangedOnesDifferInTheValueAlone) {
  const std::vector<ReuseCase> cases = generate_changed_cases(5, 32);
  ASSERT_EQ(cases.size(), 32U);
  std::size_t asked_before = 0, repeated = 0, conversations = 0;
  for (const ReuseCase& one : cases) {
    EXPECT_EQ(one.kind, ReuseKind::kChanged);
    ASSERT_TRUE(one.changed.has_value());
    const std::string& old_value = one.changed->old_value;
    const std::string& new_value = one.changed->new_value;
    EXPECT_NE(old_value, new_value);
    const std::string before = all_text(one.changed->before), target = all_text(one.target);
    // With the old value put back, it is the text from before.
    std::string restored = target;
    for (std::size_t at = 0; (at = restored.find(new_value + ".", at)) != std::string::npos;)
      restored.replace(at, new_value.size(), old_value);
    EXPECT_EQ(restored, before);
    ASSERT_EQ(one.warm.size(), 1U);
    asked_before += all_text(one.warm[0]) == before ? 1 : 0;
    repeated += occurrences(target, new_value + ".") == 2 ? 1 : 0;
    conversations += one.target.size() > 2 ? 1 : 0;
    EXPECT_EQ(one.warm[0].size(), one.target.size());
    // It stands near the beginning; what it says of the rest is the same.
    EXPECT_LT(target.find(new_value + "."), target.size() / 3);
  }
  EXPECT_EQ(asked_before, 16U);
  EXPECT_EQ(repeated, 16U);
  EXPECT_EQ(conversations, 16U);
  EXPECT_EQ(all_text(generate_changed_cases(5, 1)[0].target), all_text(cases[0].target));
  EXPECT_NE(all_text(generate_changed_cases(6, 1)[0].target), all_text(cases[0].target));
}

TEST(ReuseCases, CopiedOnesHoldThePassage) {
  for (const ReuseCase& one : generate_copied_cases(5, 4)) {
    EXPECT_EQ(one.kind, ReuseKind::kCopied);
    EXPECT_GT(one.passage.size(), 1000U);
    EXPECT_EQ(occurrences(one.target.back().content, one.passage), 1U);
    EXPECT_EQ(occurrences(one.warm[0].back().content, one.passage), 1U);
    EXPECT_NE(one.target.back().content, one.warm[0].back().content);
  }
}

TEST(ReuseCases, NextTurnsGoOnBehindTheFirstWithAQuestionAboutOtherReports) {
  for (const ReuseCase& one : generate_next_turn_cases(5, 4)) {
    EXPECT_EQ(one.kind, ReuseKind::kNextTurn);
    ASSERT_EQ(one.target.size(), one.first_turn.size() + 2);
    const Messages again(one.target.begin(), one.target.end() - 2);
    EXPECT_EQ(all_text(again), all_text(one.first_turn));
    EXPECT_NE(one.first_turn.back().content, one.warm[0].back().content);
    const std::string& first = one.first_turn.back().content;
    const std::string asked = first.substr(first.rfind('\n') + 1);
    // The name of its first report, behind "the ".
    const std::string& next = one.target.back().content;
    const std::size_t name = next.find("the ") + 4;
    EXPECT_EQ(asked.find(next.substr(name, next.find_first_of(",? ", name) - name)),
              std::string::npos)
        << asked << next;
  }
}

TEST(ReuseCases, AreReadAsTheyWereWritten) {
  std::vector<ReuseCase> cases = generate_reuse_cases(7, 1);
  cases.push_back(generate_changed_cases(7, 1)[0]);
  cases.push_back(generate_copied_cases(7, 1)[0]);
  cases.push_back(generate_next_turn_cases(7, 1)[0]);
  std::string lines;
  for (const ReuseCase& one : cases) lines += case_line(one) + "\n";
  const auto read = parse_reuse_cases(lines);
  ASSERT_TRUE(read.ok()) << read.error().message;
  ASSERT_EQ(read->size(), cases.size());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const ReuseCase& wanted = cases[i];
    const ReuseCase& got = (*read)[i];
    EXPECT_EQ(got.kind, wanted.kind);
    ASSERT_EQ(got.warm.size(), wanted.warm.size());
    EXPECT_EQ(all_text(got.warm[0]), all_text(wanted.warm[0]));
    EXPECT_EQ(all_text(got.target), all_text(wanted.target));
    EXPECT_EQ(got.passage, wanted.passage);
    EXPECT_EQ(all_text(got.first_turn), all_text(wanted.first_turn));
    ASSERT_EQ(got.changed.has_value(), wanted.changed.has_value());
    if (!wanted.changed) continue;
    EXPECT_EQ(all_text(got.changed->before), all_text(wanted.changed->before));
    EXPECT_EQ(got.changed->old_value, wanted.changed->old_value);
    EXPECT_EQ(got.changed->new_value, wanted.changed->new_value);
  }
}

ReuseResult result(std::vector<double> kl, std::size_t agreeing, Tick ttft, bool same_bits) {
  ReuseResult one{.kind = ReuseKind::kEdited, .cold_again = {}, .dropped = {}, .rungs = {}};
  one.prompt_tokens = 100;
  one.moved_tokens = 50;
  one.cold_ttft = 1000;
  one.dropped.kl.push_back(1.0);
  one.rungs.push_back({.rung = model::RepairRung::kAll,
                       .errors = {std::move(kl), agreeing, agreeing, same_bits, {}, {}},
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

GateResult gated(bool refused, double kl, double estimate, Tick ttft) {
  const model::RepairRung rung = refused ? model::RepairRung::kAll : model::RepairRung::kHeads;
  return {.refused = refused,
          .estimate = estimate,
          .chosen = {
              .rung = rung, .errors = {{kl}, 1, 1, refused, {}, {}}, .ttft = ttft, .exposure = {}}};
}

TEST(ReuseReport, ARefusedCaseCountsAsComputed) {
  std::vector<ReuseResult> results(4, result({0.1}, 1, 200, true));
  EXPECT_FALSE(reuse_figures(results)[0].gate.has_value());
  results[0].gate = gated(false, 0.02, 0.03, 300);
  results[1].gate = gated(false, 0.06, 0.04, 100);
  results[2].gate = gated(true, 0.0, 0.2, 1100);
  results[3].gate = gated(true, 0.0, 0.3, 1300);
  results.push_back(result({0.1}, 1, 200, true));
  results[4].gate = gated(true, 0.0, 0.0, 1000);  // too little to spare: no choice of a rung
  results[4].gate->refused = false;
  results[4].gate->left_alone = true;
  const GateFigures gate = reuse_figures(results)[0].gate.value();
  EXPECT_EQ(gate.shares[static_cast<std::size_t>(model::RepairRung::kHeads)], 0.4);
  EXPECT_EQ(gate.shares[static_cast<std::size_t>(model::RepairRung::kAll)], 0.4);
  EXPECT_EQ(gate.left_alone, 0.2);
  EXPECT_NEAR(gate.errors.kl_mean, 0.016, 1e-12);
  EXPECT_NEAR(gate.kl_reused, 0.04, 1e-12);
  EXPECT_NEAR(gate.estimate_reused, 0.035, 1e-12);
  EXPECT_NEAR(gate.ratio, 1.0, 1e-12);
  EXPECT_NEAR(gate.refusal_ratio.value(), 1.2, 1e-12);
  const std::string text = reuse_text(reuse_figures(results));
  EXPECT_NE(text.find("heads 40 %"), std::string::npos) << text;
  EXPECT_NE(text.find("refusal 40 %"), std::string::npos) << text;
  EXPECT_NE(text.find("in 20 % there was too little to spare"), std::string::npos) << text;
  EXPECT_NE(text.find("a refusal took 1.200 of cold"), std::string::npos) << text;
}

ReuseResult changed(std::string cold, std::string before, std::string answer) {
  ReuseResult one = result({0.1}, 1, 200, true);
  one.kind = ReuseKind::kChanged;
  one.old_value = "12 crowns";
  one.new_value = "15 crowns";
  one.cold_answer = std::move(cold);
  one.answer_before = std::move(before);
  one.rungs[0].answer = std::move(answer);
  return one;
}

TEST(ReuseReport, ChangedCasesCountWhereTheColdAnswerChanged) {
  const std::vector<ReuseResult> results = {
      changed("It costs 15 crowns", "It costs 12 crowns", "It costs 15 crowns"),
      changed("It costs 15 crowns", "It costs 12 crowns", "It costs 12 crowns."),
      changed("It costs 15 crowns", "It costs 12 crowns", "I do not know"),
      changed("Perhaps", "It costs 12 crowns", "It costs 12 crowns"),
      changed("The same", "The same", "Another")};
  const KindFigures figures = reuse_figures(results)[0];
  EXPECT_EQ(figures.counting, 4U);
  EXPECT_EQ(figures.cold_new_values, 3U);
  EXPECT_EQ(figures.rungs[0].changed.value().same, 0.25);
  EXPECT_EQ(figures.rungs[0].changed.value().old_values, 1U);
  EXPECT_FALSE(figures.rungs[0].copied.has_value());
}

TEST(ReuseReport, AValueIsFoundAsWholeWords) {
  EXPECT_TRUE(has_value("It is OPEN.", "open"));
  EXPECT_FALSE(has_value("It was opened.", "open"));
  EXPECT_FALSE(has_value("on 14 March", "4 March"));
  EXPECT_TRUE(has_value("on 14 March, or 4 March", "4 March"));
  EXPECT_FALSE(has_value("", "4 March"));
  EXPECT_FALSE(has_value("4 March", ""));
}

TEST(ReuseReport, APartOfTheOldValueIsStale) {
  ReuseResult one = changed("It is on 5 June.", "It is on 25 December.", "");
  one.old_value = "25 December";
  one.new_value = "5 June";
  EXPECT_TRUE(has_stale_word("It is on 25 December.", one));
  EXPECT_TRUE(has_stale_word("It is on 20th December 195", one));
  EXPECT_FALSE(has_stale_word("It is on 5 June.", one));
  EXPECT_FALSE(has_stale_word("It is on a Monday", one));
  one.old_value = "25 June";  // what both have says nothing
  EXPECT_FALSE(has_stale_word("It is in June", one));
  one.cold_answer = "It is on 5 June, not on 25";
  EXPECT_FALSE(has_stale_word("It is on 5 June, not on 25", one));
}

TEST(ReuseReport, ACopyIsTheLongestPieceOfTheSpan) {
  EXPECT_EQ(copied_share("abcdefgh", "Sure: abcdefgh!"), 1.0);
  EXPECT_EQ(copied_share("abcdefgh", "abcd, efg"), 0.5);
  EXPECT_EQ(copied_share("abcdefgh", "xyz"), 0.0);
  EXPECT_EQ(copied_share("abcdefgh", ""), 0.0);
  EXPECT_EQ(copied_share("", "abc"), 0.0);
}

}  // namespace
}  // namespace refrain::cli
