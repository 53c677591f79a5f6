// SegmentIndex: which stored blocks hold a given run of block_size tokens, whatever stands to their
// left. The second half of the lookup, beside the prefix tree, whose whole exact nodes it indexes:
// what is approximate is never moved a second time. Owned by the ledger (engine thread); all memory
// is taken in the constructor, every operation is O(1) on average, also where a thousand blocks
// hold the same tokens.
//
//   key     a polynomial hash of the tokens, modulo 2^61 - 1, within one space. Blocks of two
//           spaces never meet. It rolls: from one query offset to the next in O(1).
//   group   all nodes with one key, newest first. A bucket lists groups, not nodes, so that the
//           members of one group do not slow down the search for another.
//
// A hash only proposes; who asks compares tokens (kv/segment_search.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/ids.h"
#include "kv/chain_index.h"
#include "kv/prefix_tree.h"

namespace refrain::kv {

// Sum of (token[i] + 1) * base^i over a window of fixed width, modulo 2^61 - 1.
class RollingHash {
 public:
  static constexpr std::uint64_t kBase = 0x0B5297A4D3F84D1ULL;  // any number below the modulus

  explicit RollingHash(std::uint32_t width, std::uint64_t base = kBase);
  std::uint64_t of(std::span<const TokenId> window) const;
  // Of the window one token to the left: `first` comes in, `last` goes out.
  std::uint64_t step_left(std::uint64_t hash, TokenId first, TokenId last) const;

 private:
  const std::uint64_t base_;
  std::uint64_t highest_power_ = 1;  // base^(width - 1)
};

class SegmentIndex {
 public:
  // `tree` must outlive the index. `base` is a parameter so that tests can make hashes collide.
  SegmentIndex(const PrefixTree& tree, std::uint32_t block_count,
               std::uint64_t base = RollingHash::kBase);

  // ---- const
  // The newest node of that key, or kNoNode; then the others.
  NodeId first(const Hash128& space, std::uint64_t hash) const;
  NodeId next(NodeId node) const { return at(node).next; }
  const RollingHash& hash() const { return hash_; }
  std::uint32_t size() const { return size_; }
  // Empty if exactly the whole exact nodes are here, each under its own key. O(blocks).
  std::string verify() const;

  // ---- mutating
  void insert(NodeId node);  // a whole exact node, just published
  void erase(NodeId node);   // before the tree forgets it

 private:
  struct Entry {
    std::uint64_t hash = 0;
    NodeId next = kNoNode;        // in the group
    NodeId previous = kNoNode;    // in the group; kNoNode: the newest
    NodeId next_group = kNoNode;  // in the bucket; of the newest member only
    bool is_stored = false;
  };
  const Entry& at(NodeId node) const { return entries_[to_int(node)]; }
  Entry& at(NodeId node) { return entries_[to_int(node)]; }
  std::size_t bucket_of(const Hash128& space, std::uint64_t hash) const;
  // The link in the bucket that points to the group of `node`, or to its place if there is none.
  NodeId* link_to_group(const Hash128& space, std::uint64_t hash);
  bool is_key(NodeId node, const Hash128& space, std::uint64_t hash) const;

  const PrefixTree& tree_;
  const RollingHash hash_;
  std::vector<NodeId> buckets_;  // a power of two; most are empty, so most questions end here
  std::vector<Entry> entries_;   // [block_count], by node
  std::uint32_t size_ = 0;
};

}  // namespace refrain::kv
