// Which rows a policy keeps (B4, C14): pure choices, against choices made the plainest way.
#include "model/trim_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/rng.h"

namespace refrain::model {
namespace {

TEST(TrimPolicy, EachNameIsFoundAndNoneIsNot) {
  std::set<std::string_view> names;
  for (const TrimPolicy& policy : trim_policies()) {
    EXPECT_EQ(trim_policy_named(policy.name), &policy);
    names.insert(policy.name);
  }
  EXPECT_EQ(names.size(), trim_policies().size());
  EXPECT_EQ(trim_policy_named("none"), nullptr);
  EXPECT_EQ(trim_policy_named(""), nullptr);
}

// For every policy, length, budget, window, head and turns that may come: what is kept fits the
// budget, nothing stands twice, the head stays (O-37), and the window of local layers stays whole
// behind the cut, which falls on a turn if one is near.
TEST(TrimPolicy, ShapesKeepToTheBudgetAndToTheWindow) {
  Rng rng(1);
  for (int i = 0; i < 20'000; ++i) {
    const TrimPolicy& policy = trim_policies()[rng.below(trim_policies().size())];
    const TrimBounds bounds{16U << rng.below(3),
                            static_cast<std::uint32_t>(rng.below(2) * rng.below(600)),
                            static_cast<std::uint32_t>(rng.below(2) * rng.below(300))};
    const std::uint32_t least = least_trim_budget(bounds);
    const auto budget = least + static_cast<std::uint32_t>(rng.below(3000));
    const auto rows = 1 + static_cast<std::uint32_t>(rng.below(8000));
    const auto room = static_cast<std::uint32_t>(rng.below(2000));
    std::vector<std::uint32_t> turns;
    for (std::uint32_t at = 0; i % 2 == 0 && at < rows;
         at += 1 + static_cast<std::uint32_t>(rng.below(400)))
      turns.push_back(at);
    const auto shape = trim_shape(policy, rows, budget, room, bounds, turns);
    const std::uint32_t have = (rows + bounds.block_size - 1) / bounds.block_size;
    ASSERT_EQ(shape.has_value(), have > budget / bounds.block_size);
    if (!shape) continue;
    const std::uint32_t recent = have - shape->recent_begin;
    ASSERT_GE(shape->sink_blocks, 1U);
    ASSERT_GE(shape->sink_blocks * bounds.block_size, bounds.head_rows);
    ASSERT_LT(shape->sink_blocks + shape->middle_blocks, shape->recent_begin);
    const std::uint32_t kept = shape->sink_blocks + shape->middle_blocks + recent;
    ASSERT_LE(kept * bounds.block_size, budget);
    const auto plain = trim_shape(policy, rows, budget, room, bounds).value();
    const std::uint32_t passed = shape->recent_begin - plain.recent_begin;
    ASSERT_LE(passed * 4, have - plain.recent_begin);
    const std::uint32_t first = shape->recent_begin * bounds.block_size;
    ASSERT_TRUE(passed == 0 || std::any_of(turns.begin(), turns.end(), [&](std::uint32_t turn) {
                  return turn >= first && turn < first + bounds.block_size;
                }));
    const std::uint32_t unused = policy.look == TrimLook::kNone ? passed : 0;
    ASSERT_GE(
        (kept + unused + 1) * bounds.block_size + std::min(room, budget / 4) + bounds.block_size,
        budget);
    // The row behind the cut sees `window` keys, itself included.
    ASSERT_GE(rows - shape->recent_begin * bounds.block_size + 1, bounds.window);
    if (policy.look == TrimLook::kNone) {
      ASSERT_EQ(shape->middle_blocks, 0U);
    }
  }
}

TEST(TrimPolicy, BlocksBeforeATurnAreAtMostAQuarter) {
  const std::vector<std::uint32_t> turns = {0, 90, 170, 400};
  EXPECT_EQ(blocks_before_turn(96, 20, 16, turns), 4U) << "row 170 is in the fifth block";
  EXPECT_EQ(blocks_before_turn(96, 16, 16, turns), 4U);
  EXPECT_EQ(blocks_before_turn(96, 15, 16, turns), 0U) << "too far";
  EXPECT_EQ(blocks_before_turn(80, 20, 16, turns), 0U) << "it is in the first one";
  EXPECT_EQ(blocks_before_turn(416, 20, 16, turns), 0U) << "there is none";
  EXPECT_EQ(blocks_before_turn(96, 20, 16, {}), 0U);
}

TEST(TrimPolicy, TheHighestRowsAreKeptInOrderAndTheLaterOfEqualOnes) {
  using Rows = std::vector<std::uint32_t>;
  EXPECT_EQ(choose_rows(std::vector<float>{5, 1, 4, 2, 3}, 3, 0), (Rows{0, 2, 4}));
  EXPECT_EQ(choose_rows(std::vector<float>{1, 1, 1, 1}, 2, 0), (Rows{2, 3}));
  EXPECT_EQ(choose_rows(std::vector<float>{1, NAN, 0, 2}, 3, 0), (Rows{0, 2, 3}));
  EXPECT_EQ(choose_rows(std::vector<float>{1, 2}, 7, 0), (Rows{0, 1}));
  EXPECT_EQ(choose_rows(std::vector<float>{}, 2, 3), Rows{});
  // Neighbours of a high row come before rows that stand alone.
  EXPECT_EQ(choose_rows(std::vector<float>{0, 0, 9, 0, 0, 0, 3, 0}, 4, 1), (Rows{1, 2, 3, 7}));
}

// Two heads of 64 rows; room for six tiles of 16 rows.
TEST(TrimPolicy, HeadsWithHigherScoresGetMoreOfOneBudget) {
  TrimScores scores{2, 1, 64, std::vector<float>(128, 0.0F)};
  using Counts = std::vector<std::uint32_t>;
  EXPECT_EQ(spread_tiles(scores, 6, TrimChoice::kEachHead), (Counts{3, 3}));
  EXPECT_EQ(spread_tiles(scores, 5, TrimChoice::kEachHead), (Counts{3, 2}));
  EXPECT_EQ(spread_tiles(scores, 99, TrimChoice::kEachHead), (Counts{4, 4})) << "all there is";
  EXPECT_EQ(spread_tiles(scores, 99, TrimChoice::kAllHeads), (Counts{4, 4}));
  EXPECT_EQ(spread_tiles(scores, 6, TrimChoice::kAllHeads), (Counts{3, 3})) << "none is better";
  for (std::size_t row = 64; row < 128; ++row) scores.values[row] = 1;
  EXPECT_EQ(spread_tiles(scores, 4, TrimChoice::kAllHeads), (Counts{0, 4}));
  EXPECT_EQ(spread_tiles(scores, 6, TrimChoice::kAllHeads), (Counts{2, 4}));
  // Nine high rows, wherever they stand, outweigh sixteen of half their height.
  for (std::size_t row = 5; row < 14; ++row) scores.values[row * 4] = 2;
  EXPECT_EQ(spread_tiles(scores, 1, TrimChoice::kAllHeads), (Counts{1, 0}));
  EXPECT_EQ(spread_tiles(scores, 3, TrimChoice::kAllHeads), (Counts{1, 2}));
  scores.values[20] = scores.values[24] = NAN;
  EXPECT_EQ(spread_tiles(scores, 3, TrimChoice::kAllHeads), (Counts{0, 3})) << "NaN is lowest";
}

TEST(TrimPolicy, ScoresOfSeveralLooksAddUpOrTakeTheLargest) {
  // Two layers, one head, three rows; the second look saw two rows more.
  const AttentionMass first{0, 3, {1, 2, 3, 4, 5, 6}};
  const AttentionMass second{0, 5, {3, 2, 1, 9, 9, 6, 5, 4, 9, 9}};
  TrimScores sum{2, 1, 3, {}}, most{2, 1, 3, {}};
  for (const AttentionMass& mass : {first, second}) {
    sum.add(mass, MassKind::kHeadSum, 0, 3);
    most.add(mass, MassKind::kHeadMax, 0, 9);
  }
  EXPECT_EQ(sum.values, (std::vector<float>{4, 4, 4, 10, 10, 10}));
  EXPECT_EQ(most.values, (std::vector<float>{3, 2, 3, 6, 5, 6}));
  most.add({0, 3, {99, 99, 99, 99, 99, 99}}, MassKind::kHeadMax, 1, 2);
  EXPECT_EQ(most.values, (std::vector<float>{3, 99, 3, 6, 99, 6}));
  EXPECT_EQ(most.resized(2).values, (std::vector<float>{3, 99, 6, 99}));
  EXPECT_EQ(most.resized(4).values, (std::vector<float>{3, 99, 3, 0, 6, 99, 6, 0}));
  // Blocks of two rows from row 1 on; what was never looked at counts nothing.
  EXPECT_EQ(block_scores(sum, 1, 5, 2), (std::vector<float>{14, 0}));
}

}  // namespace
}  // namespace refrain::model
