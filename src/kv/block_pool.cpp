// BlockPool: see block_pool.h. Engine thread.
#include "kv/block_pool.h"

#include "base/check.h"
#include "base/str.h"

namespace refrain::kv {

BlockPool::BlockPool(std::uint32_t block_count)
    : states_(block_count, BlockState::kFree), references_(block_count, 0) {
  free_.reserve(block_count);
  for (std::uint32_t i = block_count; i > 0; --i) free_.push_back(BlockId{i - 1});
}

BlockId BlockPool::take() {
  CHECK(!free_.empty(), "take() from a pool without a free block");
  const BlockId block = free_.back();
  free_.pop_back();
  states_[to_int(block)] = BlockState::kPinned;
  references_[to_int(block)] = 1;
  return block;
}

void BlockPool::pin(BlockId block) {
  BlockState& state = states_.at(to_int(block));
  CHECK(state != BlockState::kFree, "a free block has no content to share");
  if (state == BlockState::kEvictable) {
    state = BlockState::kPinned;
    --evictable_count_;
  }
  ++references_[to_int(block)];
}

bool BlockPool::unpin(BlockId block) {
  CHECK(state(block) == BlockState::kPinned, "unpin() of a block that nobody holds");
  std::uint32_t& references = references_[to_int(block)];
  CHECK(references > 0, "a pinned block without a holder");
  if (--references > 0) return false;
  states_[to_int(block)] = BlockState::kEvictable;
  ++evictable_count_;
  return true;
}

void BlockPool::give_back(BlockId block) {
  CHECK(state(block) == BlockState::kEvictable, "only a block that nobody holds becomes free");
  states_[to_int(block)] = BlockState::kFree;
  --evictable_count_;
  free_.push_back(block);
}

BlockState BlockPool::state(BlockId block) const {
  return states_.at(to_int(block));
}

std::string BlockPool::verify() const {
  std::uint32_t free_seen = 0;
  std::uint32_t evictable_seen = 0;
  for (std::uint32_t i = 0; i < total(); ++i) {
    const bool held = references_[i] > 0;
    if (held != (states_[i] == BlockState::kPinned))
      return str_cat("block ", i, " has ", references_[i], " holders, which its state denies");
    if (states_[i] == BlockState::kFree) ++free_seen;
    if (states_[i] == BlockState::kEvictable) ++evictable_seen;
  }
  if (evictable_seen != evictable_count_)
    return str_cat("evictable blocks: counted ", evictable_seen, ", kept ", evictable_count_);
  if (free_seen != free_.size())
    return str_cat("free blocks: counted ", free_seen, ", listed ", free_.size());
  std::vector<bool> listed(total(), false);
  for (BlockId block : free_) {
    if (states_[to_int(block)] != BlockState::kFree)
      return str_cat("block ", to_int(block), " is listed as free but is not");
    if (listed[to_int(block)]) return str_cat("block ", to_int(block), " is free twice");
    listed[to_int(block)] = true;
  }
  return {};
}

}  // namespace refrain::kv
