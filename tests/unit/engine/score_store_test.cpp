// Scores of looks for the next turn (B4): the longest known beginning is found, in its own space
// and for its own policy; what is kept is bounded.
#include "engine/score_store.h"

#include <gtest/gtest.h>

#include "support/ledger_fixture.h"

namespace refrain::engine {
namespace {

using test::joined;
using test::space_of;
using test::tokens_from;

const model::TrimPolicy& kvzip() {
  return *model::trim_policy_named("kvzip");
}

// Row i of a context has i + first.
model::TrimScores scores_of(std::uint32_t rows, float first) {
  model::TrimScores scores{1, 1, rows, {}};
  for (std::uint32_t i = 0; i < rows; ++i) scores.values.push_back(first + static_cast<float>(i));
  return scores;
}

TEST(ScoreStore, TheLongestKnownBeginningIsFound) {
  ScoreStore store;
  const TokenList base = tokens_from(0, 50);
  store.put(space_of("a"), kvzip(), base, scores_of(50, 0));
  store.put(space_of("a"), kvzip(), joined(tokens_from(0, 20), tokens_from(900, 40)),
            scores_of(60, 100));
  EXPECT_EQ(store.find(space_of("a"), kvzip(), joined(base, {TokenId{7}})).values,
            scores_of(50, 0).values);
  EXPECT_EQ(store.find(space_of("a"), kvzip(), tokens_from(0, 30)).values, scores_of(30, 0).values);
  const TokenList other = joined(tokens_from(0, 20), tokens_from(900, 10));
  EXPECT_EQ(store.find(space_of("a"), kvzip(), other).values, scores_of(30, 100).values);
  EXPECT_TRUE(store.find(space_of("b"), kvzip(), base).empty());
  EXPECT_TRUE(store.find(space_of("a"), kvzip(), tokens_from(5, 50)).empty());
  EXPECT_TRUE(store.find(space_of("a"), *model::trim_policy_named("window"), base).empty());
}

TEST(ScoreStore, ALongerContextReplacesItsBeginningAndTheOldestGoFirst) {
  const std::size_t one = 50 * (sizeof(TokenId) + sizeof(float));
  ScoreStore store(2 * one);
  store.put(space_of("a"), kvzip(), tokens_from(0, 25), scores_of(25, 0));
  store.put(space_of("a"), kvzip(), tokens_from(0, 50), scores_of(50, 0));
  EXPECT_EQ(store.bytes(), one);
  store.put(space_of("b"), kvzip(), tokens_from(0, 50), scores_of(50, 0));
  EXPECT_FALSE(store.find(space_of("a"), kvzip(), tokens_from(0, 50)).empty());  // used last
  store.put(space_of("c"), kvzip(), tokens_from(0, 50), scores_of(50, 0));
  EXPECT_EQ(store.bytes(), 2 * one);
  EXPECT_TRUE(store.find(space_of("b"), kvzip(), tokens_from(0, 50)).empty());
  EXPECT_FALSE(store.find(space_of("a"), kvzip(), tokens_from(0, 50)).empty());
  store.put(space_of("d"), kvzip(), tokens_from(0, 500), scores_of(500, 0));
  EXPECT_EQ(store.bytes(), 0U) << "what is larger than the store is not kept";
}

}  // namespace
}  // namespace refrain::engine
