// BlockPool: states and reference counts (A1).
#include "kv/block_pool.h"

#include <gtest/gtest.h>

namespace refrain::kv {
namespace {

TEST(BlockPool, ANewPoolIsAllFree) {
  const BlockPool pool(3);
  EXPECT_EQ(pool.free_count(), 3U);
  EXPECT_EQ(pool.pinned_count(), 0U);
  EXPECT_EQ(pool.evictable_count(), 0U);
  EXPECT_EQ(pool.verify(), "");
}

TEST(BlockPool, ATakenBlockIsPinnedUntilItsLastHolderLetsGo) {
  BlockPool pool(2);
  const BlockId block = pool.take();
  pool.pin(block);
  EXPECT_FALSE(pool.unpin(block));
  EXPECT_EQ(pool.state(block), BlockState::kPinned);
  EXPECT_TRUE(pool.unpin(block));
  EXPECT_EQ(pool.state(block), BlockState::kEvictable);
  EXPECT_EQ(pool.free_count(), 1U);
  EXPECT_EQ(pool.verify(), "");
}

TEST(BlockPool, AnEvictableBlockCanBePinnedAgainOrGivenBack) {
  BlockPool pool(1);
  const BlockId block = pool.take();
  pool.unpin(block);
  pool.pin(block);
  EXPECT_EQ(pool.state(block), BlockState::kPinned);
  EXPECT_EQ(pool.references(block), 1U);
  pool.unpin(block);
  pool.give_back(block);
  EXPECT_EQ(pool.state(block), BlockState::kFree);
  EXPECT_EQ(pool.free_count(), 1U);
  EXPECT_EQ(pool.verify(), "");
}

TEST(BlockPoolDeath, MisuseIsCaughtAtOnce) {
  BlockPool pool(1);
  EXPECT_DEATH(pool.pin(BlockId{0}), "free block");
  const BlockId block = pool.take();
  EXPECT_DEATH(pool.take(), "without a free block");
  EXPECT_DEATH(pool.give_back(block), "nobody holds");
  pool.unpin(block);
  EXPECT_DEATH(pool.unpin(block), "nobody holds");
}

}  // namespace
}  // namespace refrain::kv
