// find_runs(): what is found in small hand-made trees (A3, A4). The property test compares it with
// a search that compares everything.
#include "kv/segment_search.h"

#include <gtest/gtest.h>

#include "support/ledger_fixture.h"

namespace refrain::kv {
namespace {

using test::joined;
using test::tokens_from;

constexpr std::uint32_t kBlockSize = 16;
constexpr std::uint32_t kBlockCount = 256;
const Hash128 kSpace = test::space_of("a");

class SegmentSearch : public ::testing::Test {
 protected:
  NodeId store(const TokenList& tokens) {
    Place place{kSpace, kNoNode};
    for (std::size_t at = 0; at < tokens.size(); at += kBlockSize) {
      const auto part =
          std::span(tokens).subspan(at, std::min<std::size_t>(kBlockSize, tokens.size() - at));
      const Publication published = tree.publish(place, part, BlockId{next_block_});
      if (published.outcome != PublishOutcome::kCovered) {
        ++next_block_;
        if (tree.is_full(published.node)) index.insert(published.node);
      }
      place.parent = published.node;
    }
    return place.parent;
  }
  std::vector<FoundRun> find(const TokenList& query, std::uint32_t least = 1,
                             const SearchLimits& limits = {}) {
    return find_runs(tree, index, kSpace, query, least, limits);
  }

  PrefixTree tree{kBlockSize, kBlockCount};
  SegmentIndex index{tree, kBlockCount};

 private:
  std::uint32_t next_block_ = 0;
};

// stored  [ 0 .. 15 ][ 16 .. 31 ][ 32 .. 47 ][ 48 .. 55        query  x [ 9 .. 52 ] x
TEST_F(SegmentSearch, ARunGoesOnIntoThePartsOfItsNeighbours) {
  const NodeId last = store(tokens_from(0, 56));
  const auto found =
      find(joined(joined(tokens_from(900, 3), tokens_from(9, 44)), tokens_from(950, 3)));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].begin, 3U);
  EXPECT_EQ(found[0].end, 47U);
  EXPECT_EQ(found[0].last, last);
  EXPECT_EQ(found[0].last_row, 4U);
}

TEST_F(SegmentSearch, ARunFollowsTheBranchThatGoesOn) {
  store(joined(tokens_from(0, 40), tokens_from(500, 40)));
  store(joined(tokens_from(0, 40), tokens_from(600, 40)));
  const auto found =
      find(joined(joined(tokens_from(16, 24), tokens_from(600, 30)), tokens_from(950, 9)));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].length(), 54U);
}

// stored  x [ 0 ........ 99 ]   y [ 50 .................. 199 ]       query  [ 0 ... 199 ]
TEST_F(SegmentSearch, WhereRunsOverlapTheLongestWins) {
  store(joined(tokens_from(900, 5), tokens_from(0, 100)));
  store(joined(tokens_from(950, 9), tokens_from(50, 150)));
  const auto found = find(tokens_from(0, 200));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].begin, 0U);
  EXPECT_EQ(found[0].end, 50U);
  EXPECT_EQ(tree.position_of(found[0].last) + static_cast<Position>(found[0].last_row), 54);
  EXPECT_EQ(found[1].begin, 50U);
  EXPECT_EQ(found[1].end, 200U);
  EXPECT_EQ(find(tokens_from(0, 200), 51).size(), 1U);  // what is left of the shorter is too short
}

TEST_F(SegmentSearch, WhatLiesBehindAForgottenBlockIsFoundAtItsOldPosition) {
  NodeId node = store(tokens_from(0, 96));
  const NodeId last = node;
  for (int i = 0; i < 3; ++i) node = tree.parent_of(node);  // [32 .. 47]
  index.erase(node);
  tree.remove(node);
  ASSERT_EQ(tree.verify() + index.verify(), "");
  const auto found = find(joined(tokens_from(900, 7), tokens_from(0, 96)));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].begin, 7U);
  EXPECT_EQ(found[0].end, 39U);
  EXPECT_EQ(found[1].begin, 55U);
  EXPECT_EQ(found[1].end, 103U);
  EXPECT_EQ(found[1].last, last);
  EXPECT_EQ(tree.position_of(last), 80);
}

// stored  a a a a ... (64 blocks, all alike)       query  a a a ... b
TEST_F(SegmentSearch, OneTokenRepeatedIsFoundWithinTheLimits) {
  store(joined(tokens_from(900, 16), TokenList(64 * kBlockSize, TokenId{7})));
  const TokenList query = joined(TokenList(700, TokenId{7}), tokens_from(950, 1));
  for (const std::uint32_t limit : {1U, 2U, 8U}) {
    const auto found = find(query, 64, {.candidates = limit, .open_runs = limit});
    ASSERT_EQ(found.size(), 1U) << limit;
    EXPECT_EQ(found[0].length(), 700U);
  }
}

TEST_F(SegmentSearch, ShortQueriesAndEmptyTreesHaveNone) {
  EXPECT_TRUE(find(tokens_from(0, 100)).empty());
  store(tokens_from(0, 100));
  EXPECT_TRUE(find({}).empty());
  EXPECT_TRUE(find(tokens_from(16, 15)).empty());
  EXPECT_EQ(find(tokens_from(16, 16)).size(), 1U);
  EXPECT_TRUE(find(tokens_from(17, 30)).empty());  // no whole block
}

}  // namespace
}  // namespace refrain::kv
