// Which rows a repair computes again: heads, what is attended to most, all.
#include "model/repair_choice.h"

#include <gtest/gtest.h>

#include <numeric>

namespace refrain::model {
namespace {

constexpr MovedRun kRuns[] = {{10, 110}, {120, 140}};

std::vector<Position> range(Position begin, Position end) {
  std::vector<Position> rows(static_cast<std::size_t>(end - begin));
  std::iota(rows.begin(), rows.end(), begin);
  return rows;
}

TEST(RepairChoice, TheRungsAreNoneHeadsAndAll) {
  EXPECT_TRUE(choose_repair(kRuns, {}, rules_of(RepairRung::kMoved)).empty());
  std::vector<Position> heads = range(10, 42);
  const std::vector<Position> short_run = range(120, 140);
  heads.insert(heads.end(), short_run.begin(), short_run.end());
  EXPECT_EQ(choose_repair(kRuns, {}, rules_of(RepairRung::kHeads)), heads);
  std::vector<Position> all = range(10, 110);
  all.insert(all.end(), short_run.begin(), short_run.end());
  EXPECT_EQ(choose_repair(kRuns, {}, rules_of(RepairRung::kAll)), all);
}

TEST(RepairChoice, TakesWhatIsAttendedToMostOfAllRunsTogether) {
  std::vector<float> attention(150, 0.0F);
  attention[5] = attention[115] = 100.0F;  // not moved
  attention[50] = 3.0F;
  attention[99] = 2.0F;
  attention[130] = 1.0F;
  const RepairRules rules{.head_rows = 1, .attended_share = 3.0 / 120.0};
  EXPECT_EQ(choose_repair(kRuns, attention, rules), (std::vector<Position>{10, 50, 99, 120, 130}));
}

TEST(RepairChoice, EachRunGetsItsLeastAndTiesGoToTheFirstRow) {
  std::vector<float> attention(150, 0.0F);
  for (std::size_t i = 60; i < 90; ++i) attention[i] = 1.0F;
  const RepairRules rules{.attended_share = 6.0 / 120.0, .attended_least = 2};
  EXPECT_EQ(choose_repair(kRuns, attention, rules),
            (std::vector<Position>{60, 61, 62, 63, 120, 121}));
}

TEST(RepairChoice, AShareIsRoundedUpAndNeverMoreThanThereIs) {
  const std::vector<float> attention(150, 1.0F);
  EXPECT_EQ(choose_repair(kRuns, attention, {.attended_share = 0.001}).size(), 1U);
  EXPECT_EQ(choose_repair(kRuns, attention, {.attended_share = 2.0}).size(), 120U);
  EXPECT_EQ(choose_repair({}, attention, {.head_rows = 9, .attended_share = 0.5}).size(), 0U);
}

TEST(RepairChoice, HigherRungsContainTheLowerOnes) {
  std::vector<float> attention(150);
  for (std::size_t i = 0; i < attention.size(); ++i)
    attention[i] = static_cast<float>(i * 7919 % 151);
  std::vector<Position> lower;
  for (const RepairRung rung : kRepairRungs) {
    const std::vector<Position> rows = choose_repair(kRuns, attention, rules_of(rung));
    EXPECT_TRUE(std::includes(rows.begin(), rows.end(), lower.begin(), lower.end()))
        << name_of(rung);
    EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
    lower = rows;
  }
}

TEST(RepairChoice, PassesJoinChosenAndFreshRowsInOrder) {
  const std::vector<Position> chosen = {12, 14, 20}, fresh = {3, 4, 15, 20, 30};
  EXPECT_EQ(repair_pass(chosen, fresh), (std::vector<Position>{3, 4, 12, 14, 15, 20, 30}));
  EXPECT_EQ(second_pass(chosen, fresh), (std::vector<Position>{12, 14, 15, 20, 30}));
  EXPECT_EQ(repair_pass({}, fresh), fresh);
  EXPECT_TRUE(second_pass({}, fresh).empty());
}

TEST(RepairChoice, AttentionPerKeyIsTheSumOverTheLayersThatLook) {
  EXPECT_EQ(first_looking_layer(6), 4U);
  EXPECT_EQ(first_looking_layer(1), 0U);
  const AttentionMass two{0, 2, {16.0F, 17.0F, 32.0F, 34.0F}};
  EXPECT_EQ(attention_per_key(two), (std::vector<float>{48.0F, 51.0F}));
  const AttentionMass one{0, 3, {1.0F, 2.0F, 3.0F}};
  EXPECT_EQ(attention_per_key(one), (std::vector<float>{1.0F, 2.0F, 3.0F}));
  EXPECT_TRUE(attention_per_key({}).empty());
}

}  // namespace
}  // namespace refrain::model
