// RollingHash and SegmentIndex: the hash rolls, groups of equal blocks come and go (A3, A5).
#include "kv/segment_index.h"

#include <gtest/gtest.h>

#include <set>

#include "base/rng.h"
#include "support/ledger_fixture.h"

namespace refrain::kv {
namespace {

constexpr std::uint32_t kBlockSize = 16;
const Hash128 kSpace = test::space_of("a");

TEST(RollingHash, OneStepToTheLeftIsTheHashOfThatWindow) {
  Rng rng(1);
  TokenList tokens;
  for (int i = 0; i < 300; ++i)
    tokens.push_back(TokenId{i % 7 == 0 ? 0x7FFFFFFF : static_cast<int>(rng.below(3))});
  for (const std::uint32_t width : {1U, 2U, 16U, 64U}) {
    const RollingHash hash(width);
    const std::span<const TokenId> all(tokens);
    std::uint64_t rolled = hash.of(all.last(width));
    for (std::size_t at = tokens.size() - width; at-- > 0;) {
      rolled = hash.step_left(rolled, all[at], all[at + width]);
      ASSERT_EQ(rolled, hash.of(all.subspan(at, width))) << width << " at " << at;
    }
  }
}

TEST(RollingHash, OrderAndZerosCount) {
  const RollingHash hash(3);
  const auto of = [&](int a, int b, int c) {
    return hash.of(TokenList{TokenId{a}, TokenId{b}, TokenId{c}});
  };
  EXPECT_NE(of(1, 2, 3), of(3, 2, 1));
  EXPECT_NE(of(0, 0, 1), of(0, 1, 0));
  EXPECT_NE(of(0, 0, 0), of(0, 0, 1));
}

// Nodes with few different contents, behind different roots: large groups, shared buckets.
TEST(SegmentIndex, GroupsOfEqualBlocksStayFindableWhateverGoes) {
  for (const std::uint64_t base : {RollingHash::kBase, std::uint64_t{1}, std::uint64_t{0}}) {
    constexpr std::uint32_t kCount = 600;
    PrefixTree tree(kBlockSize, kCount);
    SegmentIndex index(tree, kCount, base);
    Rng rng(3);
    std::vector<NodeId> nodes;
    for (std::uint32_t i = 0; i < kCount; ++i) {
      const Place place{test::space_of(i % 3 == 0 ? "b" : "a"),
                        nodes.empty() || i < 40 ? kNoNode : nodes[rng.below(nodes.size())]};
      const Place below =
          place.parent == kNoNode ? place : Place{tree.space_of(place.parent), place.parent};
      const auto content = test::tokens_from(static_cast<int>(rng.below(150)), kBlockSize);
      const Publication published = tree.publish(below, content, BlockId{i});
      if (published.outcome != PublishOutcome::kInserted) continue;
      index.insert(published.node);
      nodes.push_back(published.node);
    }
    ASSERT_EQ(index.verify(), "");
    ASSERT_GT(nodes.size(), 300U);
    while (!nodes.empty()) {
      const std::size_t which = rng.below(nodes.size());
      index.erase(nodes[which]);
      tree.remove(nodes[which]);
      nodes.erase(nodes.begin() + static_cast<std::ptrdiff_t>(which));
      ASSERT_EQ(index.size(), nodes.size());
      ASSERT_EQ(index.verify(), "");
    }
  }
}

TEST(SegmentIndex, ListsTheNodesOfOneKeyNewestFirstAndOfItsSpaceOnly) {
  PrefixTree tree(kBlockSize, 8);
  SegmentIndex index(tree, 8);
  const TokenList text = test::tokens_from(0, kBlockSize);
  const auto store = [&](const Hash128& space, int root, std::uint32_t block) {
    const NodeId parent =
        tree.publish(Place{space, kNoNode}, test::tokens_from(root, kBlockSize), BlockId{block})
            .node;
    const NodeId node = tree.publish(Place{space, parent}, text, BlockId{block + 1}).node;
    index.insert(parent);
    index.insert(node);
    return node;
  };
  const NodeId older = store(kSpace, 100, 0);
  const NodeId newer = store(kSpace, 200, 2);
  const NodeId foreign = store(test::space_of("b"), 100, 4);
  const std::uint64_t hash = index.hash().of(text);
  EXPECT_EQ(index.first(kSpace, hash), newer);
  EXPECT_EQ(index.next(newer), older);
  EXPECT_EQ(index.next(older), kNoNode);
  EXPECT_EQ(index.first(test::space_of("b"), hash), foreign);
  EXPECT_EQ(index.next(foreign), kNoNode);
  EXPECT_EQ(index.first(test::space_of("c"), hash), kNoNode);
}

TEST(SegmentIndex, VerifySeesABlockThatIsMissing) {
  PrefixTree tree(kBlockSize, 8);
  SegmentIndex index(tree, 8);
  const NodeId node =
      tree.publish(Place{kSpace, kNoNode}, test::tokens_from(0, kBlockSize), BlockId{0}).node;
  EXPECT_NE(index.verify(), "");
  index.insert(node);
  EXPECT_EQ(index.verify(), "");
  tree.remove(node);
  EXPECT_NE(index.verify(), "");
}

TEST(SegmentIndexDeath, OnlyWholeBlocksAndEachOnce) {
  PrefixTree tree(kBlockSize, 8);
  SegmentIndex index(tree, 8);
  const Place root{kSpace, kNoNode};
  const NodeId part = tree.publish(root, test::tokens_from(0, 5), BlockId{0}).node;
  EXPECT_DEATH(index.insert(part), "only whole blocks");
  const NodeId node = tree.publish(root, test::tokens_from(100, kBlockSize), BlockId{1}).node;
  index.insert(node);
  EXPECT_DEATH(index.insert(node), "indexed once");
  EXPECT_DEATH(index.erase(part), "not indexed");
}

}  // namespace
}  // namespace refrain::kv
