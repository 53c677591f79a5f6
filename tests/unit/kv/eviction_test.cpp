// EvictionOrder: who goes next under lru, lfu and gdsf.
#include "kv/eviction.h"

#include <gtest/gtest.h>

namespace refrain::kv {
namespace {

constexpr NodeId kA{0}, kB{1}, kC{2};

TEST(EvictionOrder, LruGivesUpTheLongestUnused) {
  EvictionOrder order(EvictionPolicy::kLru, 3);
  order.start(kA, 1);
  order.start(kB, 2);
  order.start(kC, 3);
  order.count_use(kA, 9);
  for (NodeId node : {kA, kB, kC}) order.add(node);
  EXPECT_EQ(order.candidates(), (std::vector{kB, kC, kA}));
}

TEST(EvictionOrder, LfuGivesUpTheLeastUsedAndOfEqualsTheLongestUnused) {
  EvictionOrder order(EvictionPolicy::kLfu, 3);
  order.start(kA, 1);
  order.count_use(kA, 2);
  order.start(kB, 7);
  order.start(kC, 8);
  for (NodeId node : {kC, kB, kA}) order.add(node);
  EXPECT_EQ(order.candidates(), (std::vector{kB, kC, kA}));
}

TEST(EvictionOrder, TiesGoInTheOrderOfBecomingCandidates) {
  for (EvictionPolicy policy :
       {EvictionPolicy::kLru, EvictionPolicy::kLfu, EvictionPolicy::kGdsf}) {
    EvictionOrder order(policy, 3);
    for (NodeId node : {kA, kB, kC}) order.start(node, 5);
    for (NodeId node : {kC, kA, kB}) order.add(node);
    EXPECT_EQ(order.candidates(), (std::vector{kC, kA, kB}));
  }
}

TEST(EvictionOrder, OfEqualRankTheDeeperGoesFirstWheneverItCame) {
  EvictionOrder order(EvictionPolicy::kLru, 3);
  order.start(kA, 5, 0);
  order.start(kB, 5, 2);
  order.start(kC, 5, 1);
  for (NodeId node : {kA, kC, kB}) order.add(node);
  EXPECT_EQ(order.candidates(), (std::vector{kB, kC, kA}));
}

TEST(EvictionOrder, NewContentForgetsTheUseOfTheOld) {
  EvictionOrder order(EvictionPolicy::kLfu, 3);
  order.start(kA, 1);
  for (int i = 0; i < 5; ++i) order.count_use(kA, 2);
  order.add(kA);
  order.remove(kA);
  order.start(kA, 3);  // the node stores something else now
  order.start(kB, 1);
  order.count_use(kB, 2);
  order.add(kA);
  order.add(kB);
  EXPECT_EQ(order.first(), kA);
}

TEST(EvictionOrder, GdsfLetsOldFameFade) {
  EvictionOrder order(EvictionPolicy::kGdsf, 3);
  order.start(kA, 1);
  for (int i = 0; i < 4; ++i) order.count_use(kA, 2);  // worth 5
  order.add(kA);
  // Newcomers used once come and go: each raises the floor by what it was worth.
  Tick now = 3;
  for (std::uint64_t worth = 1; worth <= 4; ++worth) {
    order.start(kB, now++);
    order.add(kB);
    ASSERT_EQ(order.next_victim(), kB) << "worth " << worth << " of 5";
    order.remove(kB);
  }
  order.start(kC, now++);
  order.add(kC);  // worth 5, too, and used later
  EXPECT_EQ(order.next_victim(), kA);
  // With lfu the old one would stay for good.
}

TEST(EvictionOrder, GdsfKeepsWhatIsUsedOftenAndAHeadIsWorthItsTail) {
  EvictionOrder order(EvictionPolicy::kGdsf, 3);
  order.start(kA, 1);
  order.start(kB, 2);
  order.count_use(kA, 3);
  order.add(kA);
  order.add(kB);
  EXPECT_EQ(order.next_victim(), kB);
  order.remove(kB);
  order.remove(kA);
  order.start(kC, 4, 1);
  for (int i = 0; i < 3; ++i) order.count_use(kC, 5);
  EXPECT_TRUE(order.keep_up_with(kA, kC));
  EXPECT_FALSE(order.keep_up_with(kA, kC));
  order.add(kC);
  order.add(kA);
  EXPECT_EQ(order.first(), kA) << "used earlier";
}

TEST(EvictionOrder, TimeNeverRunsBackwards) {
  EvictionOrder order(EvictionPolicy::kLru, 3);
  order.start(kA, 10);
  order.keep_fresh(kA, 3);
  order.start(kB, 5);
  order.add(kA);
  order.add(kB);
  EXPECT_EQ(order.first(), kB);
}

}  // namespace
}  // namespace refrain::kv
