// BlockPool: the state and reference count of every KV block, and nothing else. It does not know
// what a block stores; the prefix tree does. Owned by the ledger (engine thread). Every operation
// is O(1), all memory is taken in the constructor.
//
//            take                    pin (0 -> 1)
//    free ---------> pinned <------------------------ evictable
//      ^               | unpin (1 -> 0)                 ^   |
//      |               +--------------------------------+   |
//      +----------------------- give_back ------------------+
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"

namespace refrain::kv {

enum class BlockState : std::uint8_t { kFree, kPinned, kEvictable };

class BlockPool {
 public:
  explicit BlockPool(std::uint32_t block_count);

  // A free block, now pinned once. CHECKs that there is one; the ledger evicts first.
  BlockId take();
  // One more holder.
  void pin(BlockId block);
  // One holder less. True if it was the last: the block is then evictable, and a block without
  // content in the tree must be given back at once.
  bool unpin(BlockId block);
  // Evictable -> free.
  void give_back(BlockId block);

  BlockState state(BlockId block) const;
  std::uint32_t references(BlockId block) const { return references_[to_int(block)]; }
  std::uint32_t total() const { return static_cast<std::uint32_t>(states_.size()); }
  std::uint32_t free_count() const { return static_cast<std::uint32_t>(free_.size()); }
  std::uint32_t evictable_count() const { return evictable_count_; }
  std::uint32_t pinned_count() const { return total() - free_count() - evictable_count_; }

  // Empty if states, counts and the free list agree; else what does not. O(blocks).
  std::string verify() const;

 private:
  std::vector<BlockState> states_;
  std::vector<std::uint32_t> references_;
  std::vector<BlockId> free_;  // a stack: the block freed last is taken first (its bytes are warm)
  std::uint32_t evictable_count_ = 0;
};

}  // namespace refrain::kv
