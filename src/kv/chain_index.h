// ChainIndex: a hash table from 128-bit chain hashes to tree nodes, with the links inside one array
// per node: no allocation after the constructor, O(1) on average, equal hashes allowed (the tree
// compares tokens). Owned by the prefix tree (engine thread).
//
//   for (NodeId n = index.first(hash); n != kNoNode; n = index.next(n)) ...   same hash, all nodes
#pragma once

#include <cstdint>
#include <vector>

#include "base/hash.h"

namespace refrain::kv {

enum class NodeId : std::uint32_t {};  // index of a prefix tree node
constexpr NodeId kNoNode{0xFFFFFFFFU};

class ChainIndex {
 public:
  explicit ChainIndex(std::uint32_t node_count);

  NodeId first(const Hash128& hash) const;
  NodeId next(NodeId node) const;
  void insert(NodeId node, const Hash128& hash);
  void erase(NodeId node);  // must be in the index
  std::uint32_t size() const { return size_; }

 private:
  struct Link {
    Hash128 hash{};
    NodeId next = kNoNode;
  };
  std::uint32_t bucket_of(const Hash128& hash) const;
  NodeId skip_to(NodeId node, const Hash128& hash) const;

  std::vector<NodeId> buckets_;  // a power of two, at least node_count
  std::vector<Link> links_;      // [node_count]
  std::uint32_t size_ = 0;
};

}  // namespace refrain::kv
