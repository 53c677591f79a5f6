// PrefixTree: which tokens each cached block stores, and behind which left context. One node per
// block; a node's path to its root is the whole text its K/V depend on. Knows nothing of reference
// counts, recency or sequences. Owned by the ledger (engine thread); all O(block_count) memory.
//
//   space S -+- [a b c d] -+- [e f g h] --- [i j]      full nodes hold block_size tokens and may
//            |             +- [e f x]                  have children; shorter nodes are leaves
//            |             +~ [e f g h] ~~~ [k l]      approximate: a second tree (~)
//   space T -+- [a b c d]                              spaces never meet
//
// Siblings differ, and no short leaf is a prefix of a sibling (the longer one replaces it).
// The second tree holds approximate K/V, each block with the divergence that was estimated for it.
// It hangs below exact nodes and at the roots, and nothing exact ever hangs below it. Who looks for
// a child says of which of the two: both may hold the same tokens at the same place.
// A node may be forgotten before what hangs below it: its children are then *detached*. No prefix
// leads to them any more, but their tokens, position and own continuations stay, so that they can
// still be found as segments (kv/segment_index.h).
//
// Two ways to a child:
//   by chain hash   O(1) for a whole block: hash(parent's hash, tokens). The hash only proposes;
//                   parent and tokens are compared before anything counts as found.
//   by order        O(log n) for a part of a block: children sorted by their tokens, so that the
//                   longest common prefix is at a neighbour of where the query would stand,
//                   however many siblings begin alike.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/ids.h"
#include "kv/chain_index.h"

namespace refrain::kv {

// Where children hang: below a node, or at the root of a space; in which of the two trees.
struct Place {
  Hash128 space{};
  NodeId parent = kNoNode;  // kNoNode: the root of `space`
  bool is_approximate = false;
};

// A stored child and how many tokens it has in common with the query from its first token on.
struct ClosestChild {
  NodeId node = kNoNode;
  std::uint32_t common_tokens = 0;
};

struct PrefixMatch {
  std::vector<NodeId> full;  // whole blocks, from the root down
  NodeId partial = kNoNode;  // a child of the last one that shares the next tokens
  std::uint32_t partial_tokens = 0;
  bool something_follows = false;  // stored text goes on behind the match (but differs)
};

enum class PublishOutcome {
  kInserted,  // a new node
  kExtended,  // a shorter leaf of the same beginning grew into it; its old block is `displaced`
  kCovered,   // a stored node already begins with these tokens; nothing changed
};

struct Publication {
  PublishOutcome outcome = PublishOutcome::kInserted;
  NodeId node = kNoNode;
  BlockId displaced{};  // kExtended only
};

class PrefixTree {
 public:
  using ChainHash = Hash128 (*)(const Hash128& previous, std::span<const TokenId> tokens);
  static Hash128 default_hash(const Hash128& previous, std::span<const TokenId> tokens);

  // `hash` is a parameter so that tests can make every hash collide.
  PrefixTree(std::uint32_t block_size, std::uint32_t block_count, ChainHash hash = &default_hash);
  PrefixTree(const PrefixTree&) = delete;  // the order of children points into it
  PrefixTree& operator=(const PrefixTree&) = delete;

  // ---- const
  // The longest exact prefix of `tokens` that is stored.
  PrefixMatch match(const Hash128& space, std::span<const TokenId> tokens) const;
  NodeId find_full(const Place& place, std::span<const TokenId> tokens) const;
  ClosestChild closest_child(const Place& place, std::span<const TokenId> tokens) const;

  NodeId node_of(BlockId block) const { return node_of_block_[to_int(block)]; }  // or kNoNode
  BlockId block_of(NodeId node) const { return at(node).block; }
  NodeId parent_of(NodeId node) const { return at(node).parent; }
  const Hash128& space_of(NodeId node) const { return at(node).space; }
  // Of its first token in the text that it was computed in.
  Position position_of(NodeId node) const {
    return static_cast<Position>(at(node).depth * block_size_);
  }
  std::uint32_t depth_of(NodeId node) const { return at(node).depth; }
  bool is_detached(NodeId node) const { return at(node).is_detached; }
  std::span<const TokenId> tokens_of(NodeId node) const;
  bool is_full(NodeId node) const { return at(node).token_count == block_size_; }
  bool is_leaf(NodeId node) const { return at(node).child_count == 0; }
  bool is_approximate(NodeId node) const { return at(node).is_approximate; }
  float divergence_of(NodeId node) const { return at(node).divergence; }  // 0 of exact ones
  // Exact nodes only: whether the second tree goes on behind it.
  bool has_approximate_children(NodeId node) const { return at(node).approximate_children > 0; }
  std::uint32_t approximate_count() const { return approximate_count_; }
  std::uint32_t block_size() const { return block_size_; }
  std::uint32_t node_count() const {
    return static_cast<std::uint32_t>(nodes_.size() - unused_.size());
  }
  // Detached ones included.
  std::vector<NodeId> nodes() const;
  // Empty if all indexes agree with each other; else what does not. O(blocks).
  std::string verify() const;

  // ---- mutating
  // Stores 1..block_size tokens, whose K/V are in `block`, below `place`. The parent must be full,
  // and exact if `place` is. `divergence` is 0 of exact K/V.
  Publication publish(const Place& place, std::span<const TokenId> tokens, BlockId block,
                      float divergence = 0);
  // The same tokens are now kept in another block, whose K/V diverge that much.
  void move_to_block(NodeId node, BlockId block, float divergence = 0);
  // Forgets a node; its children are detached.
  void remove(NodeId node);

 private:
  struct Node {
    BlockId block{};
    NodeId parent = kNoNode;
    std::uint32_t token_count = 0;  // 0 = node not in use
    std::uint32_t child_count = 0;
    std::uint32_t approximate_children = 0;  // of those, below an exact node
    std::uint32_t depth = 0;                 // blocks to its left in the text it was computed in
    float divergence = 0;                    // approximate nodes only
    bool is_approximate = false;             // in the second tree
    bool is_detached = false;                // its parent has been forgotten
    Hash128 space{};
    Hash128 chain{};  // of the path including this node; full nodes only
  };
  struct ChildKey {
    Place place;
    std::span<const TokenId> tokens;
  };
  struct ByTokens {  // orders nodes by place, then by tokens
    using is_transparent = void;
    const PrefixTree* tree;
    bool operator()(NodeId a, NodeId b) const;
    bool operator()(NodeId a, const ChildKey& b) const;
    bool operator()(const ChildKey& a, NodeId b) const;
  };

  const Node& at(NodeId node) const { return nodes_[to_int(node)]; }
  Node& at(NodeId node) { return nodes_[to_int(node)]; }
  bool begins_second_tree(const Place& place) const;
  Hash128 chain_at(const Place& place) const;
  Place place_of(NodeId node) const {
    return Place{at(node).space, at(node).parent, at(node).is_approximate};
  }
  ChildKey key_of(NodeId node) const;
  std::uint32_t common_tokens(NodeId node, const ChildKey& key) const;
  bool hangs_at(NodeId node, const Place& place) const;
  std::vector<NodeId> children_of(NodeId node) const;
  void unlink(NodeId node);  // from both indexes
  void store(NodeId node, std::span<const TokenId> tokens, BlockId block, float divergence);
  void count_child(const Place& place, int change);
  std::string verify_node(NodeId node, std::uint32_t child_count) const;
  std::string verify_trees() const;
  std::string verify_order() const;

  const std::uint32_t block_size_;
  const ChainHash hash_;
  std::vector<Node> nodes_;            // [block_count]
  std::vector<TokenId> tokens_;        // [block_count * block_size], by node
  std::vector<NodeId> node_of_block_;  // [block_count]
  std::vector<NodeId> unused_;
  std::uint32_t approximate_count_ = 0;
  // Both without detached nodes.
  ChainIndex chains_;
  std::set<NodeId, ByTokens> order_;
};

}  // namespace refrain::kv
