// PrefixTree: what is found, what is stored, and that hashes only propose (A2, A5 prefix half).
#include "kv/prefix_tree.h"

#include <gtest/gtest.h>

#include "support/ledger_fixture.h"

namespace refrain::kv {
namespace {

using test::joined;
using test::tokens_from;

constexpr std::uint32_t kBlockSize = 16;

// Stores a text block by block; returns its last node.
NodeId store(PrefixTree& tree, const Hash128& space, const TokenList& tokens, std::uint32_t block) {
  NodeId parent = kNoNode;
  for (std::size_t at = 0; at < tokens.size(); at += kBlockSize) {
    const auto part =
        std::span(tokens).subspan(at, std::min<std::size_t>(kBlockSize, tokens.size() - at));
    const Publication published = tree.publish(Place{space, parent}, part, BlockId{block});
    if (published.outcome != PublishOutcome::kCovered) ++block;
    parent = published.node;
  }
  return parent;
}

const Hash128 kSpace = test::space_of("a");

//  space a --- [0..15] --- [16..31] --- [32..39]
TEST(PrefixTree, FindsWholeBlocksAndThenPartOfTheNext) {
  PrefixTree tree(kBlockSize, 8);
  store(tree, kSpace, tokens_from(0, 40), 0);
  const PrefixMatch match = tree.match(kSpace, joined(tokens_from(0, 37), tokens_from(900, 9)));
  EXPECT_EQ(match.full.size(), 2U);
  EXPECT_EQ(match.partial_tokens, 5U);
  EXPECT_EQ(tree.block_of(match.partial), BlockId{2});
  EXPECT_TRUE(match.something_follows);
  EXPECT_EQ(tree.verify(), "");
}

TEST(PrefixTree, MatchesEveryLengthAroundBlockBorders) {
  PrefixTree tree(kBlockSize, 8);
  store(tree, kSpace, tokens_from(0, 64), 0);
  for (std::size_t length = 0; length <= 64; ++length) {
    const PrefixMatch match =
        tree.match(kSpace, joined(tokens_from(0, length), tokens_from(900, 20)));
    EXPECT_EQ(match.full.size() * kBlockSize + match.partial_tokens, length);
  }
}

TEST(PrefixTree, SpacesNeverMeet) {
  PrefixTree tree(kBlockSize, 8);
  store(tree, kSpace, tokens_from(0, 40), 0);
  const PrefixMatch match = tree.match(test::space_of("b"), tokens_from(0, 40));
  EXPECT_TRUE(match.full.empty());
  EXPECT_EQ(match.partial_tokens, 0U);
  EXPECT_FALSE(match.something_follows);
}

Hash128 always_the_same(const Hash128&, std::span<const TokenId>) {
  return Hash128{7, 7};
}

TEST(PrefixTree, EqualHashesOfDifferentTextsAreToldApartByTheirTokens) {
  PrefixTree tree(kBlockSize, 16, &always_the_same);
  store(tree, kSpace, tokens_from(0, 48), 0);
  store(tree, kSpace, joined(tokens_from(0, 16), tokens_from(500, 32)), 3);
  store(tree, test::space_of("b"), tokens_from(700, 32), 6);
  EXPECT_EQ(tree.verify(), "");
  EXPECT_EQ(tree.match(kSpace, tokens_from(0, 48)).full.size(), 3U);
  EXPECT_EQ(tree.match(kSpace, tokens_from(700, 32)).full.size(), 0U);
  const PrefixMatch fork = tree.match(kSpace, joined(tokens_from(0, 16), tokens_from(500, 32)));
  ASSERT_EQ(fork.full.size(), 3U);
  EXPECT_EQ(tree.block_of(fork.full[1]), BlockId{3});
  // The same tokens behind another left context are another text.
  EXPECT_EQ(tree.match(kSpace, tokens_from(500, 32)).full.size(), 0U);
}

//  a --- [0..15] -+- [16 17 18 ...]   the query [16 17 99] shares two tokens with the first,
//                 +- [16 20 ...]      one with the second, however many others begin with 16
TEST(PrefixTree, OfManySiblingsTheOneWithTheLongestCommonPartIsFound) {
  PrefixTree tree(kBlockSize, 300);
  const TokenList head = tokens_from(0, 16);
  std::uint32_t block = 0;
  store(tree, kSpace, head, block++);
  for (int i = 0; i < 200; ++i)
    store(tree, kSpace, joined(joined(head, {TokenId{16}}), tokens_from(100 + 20 * i, 15)),
          block++);
  for (int i = 0; i < 200; i += 17) {
    TokenList query = joined(joined(head, {TokenId{16}}), tokens_from(100 + 20 * i, 9));
    query.push_back(TokenId{99999});
    EXPECT_EQ(tree.match(kSpace, query).partial_tokens, 10U);
  }
  EXPECT_EQ(tree.verify(), "");
}

TEST(PrefixTree, AShortLeafGrowsIntoTheLongerTextThatBeginsWithIt) {
  PrefixTree tree(kBlockSize, 8);
  const NodeId leaf = store(tree, kSpace, tokens_from(0, 5), 0);
  const Publication longer = tree.publish(Place{kSpace, kNoNode}, tokens_from(0, 9), BlockId{1});
  EXPECT_EQ(longer.outcome, PublishOutcome::kExtended);
  EXPECT_EQ(longer.node, leaf);
  EXPECT_EQ(longer.displaced, BlockId{0});
  EXPECT_EQ(tree.node_of(BlockId{0}), kNoNode);
  const Publication whole = tree.publish(Place{kSpace, kNoNode}, tokens_from(0, 16), BlockId{2});
  EXPECT_EQ(whole.outcome, PublishOutcome::kExtended);
  EXPECT_TRUE(tree.is_full(leaf));
  EXPECT_EQ(tree.node_count(), 1U);
  EXPECT_EQ(tree.verify(), "");
}

TEST(PrefixTree, WhatALongerTextBeginsWithIsNotStoredAgain) {
  PrefixTree tree(kBlockSize, 8);
  const NodeId node = store(tree, kSpace, tokens_from(0, 16), 0);
  for (std::size_t length : {1U, 7U, 16U}) {
    const Publication again =
        tree.publish(Place{kSpace, kNoNode}, tokens_from(0, length), BlockId{1});
    EXPECT_EQ(again.outcome, PublishOutcome::kCovered);
    EXPECT_EQ(again.node, node);
  }
  EXPECT_EQ(tree.verify(), "");
}

//  a --- [0..15] --- [16..31] -+- [32..47] --- [48..55]      the second block goes
//                              +- [500..507]
TEST(PrefixTree, WhatHangsBelowAForgottenNodeIsDetachedAndKeepsItsTextAndPosition) {
  PrefixTree tree(kBlockSize, 8);
  const NodeId leaf = store(tree, kSpace, tokens_from(0, 56), 0);
  const NodeId sibling = store(tree, kSpace, joined(tokens_from(0, 32), tokens_from(500, 8)), 4);
  const NodeId third = tree.parent_of(leaf);
  tree.remove(tree.parent_of(third));
  EXPECT_EQ(tree.verify(), "");
  EXPECT_EQ(tree.node_count(), 4U);
  EXPECT_EQ(tree.match(kSpace, tokens_from(0, 56)).full.size(), 1U);
  EXPECT_EQ(tree.match(kSpace, tokens_from(0, 56)).partial_tokens, 0U);
  EXPECT_TRUE(tree.is_detached(third));
  EXPECT_TRUE(tree.is_detached(sibling));
  EXPECT_FALSE(tree.is_detached(leaf));
  EXPECT_EQ(tree.position_of(third), 32);
  EXPECT_EQ(tree.position_of(leaf), 48);
  EXPECT_EQ(tree.closest_child(Place{kSpace, third}, tokens_from(48, 5)).node, leaf);

  // Computed once more, the text has new nodes; the detached ones stay beside them.
  store(tree, kSpace, tokens_from(0, 48), 5);
  EXPECT_EQ(tree.verify(), "");
  EXPECT_EQ(tree.match(kSpace, tokens_from(0, 56)).full.size(), 3U);
  tree.remove(third);
  EXPECT_TRUE(tree.is_detached(leaf));
  tree.remove(leaf);
  tree.remove(sibling);
  EXPECT_EQ(tree.node_count(), 3U);
  EXPECT_EQ(tree.verify(), "");
}

}  // namespace
}  // namespace refrain::kv
