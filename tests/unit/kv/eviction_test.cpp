// EvictionOrder: who goes next under lru and lfu.
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
  for (EvictionPolicy policy : {EvictionPolicy::kLru, EvictionPolicy::kLfu}) {
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
