// EvictionOrder: which cached block goes next. It holds the use of every node and the set of
// candidates: all nodes that nobody uses. Owned by the ledger (engine thread); O(log candidates).
//
//   lru   longest unused first
//   lfu   fewest uses first, of these the longest unused
//   gdsf  as lfu, but what was given up last sets the floor from which later uses count, so that
//         old fame fades: rank = uses + floor at its last use. (GreedyDual-Size with frequency,
//         Cherkasova 1998; blocks have one size and one cost, since a tail must not outlive its
//         head.)
//   Ties: the deeper one first; of these the one that became a candidate first. No clock here;
//   ticks come in.
//
// A chain is given up from its tail to its head, since every use of a tail as a prefix is one of
// its head as well: a head without its tail is a useful prefix, a tail without its head is none.
// Only hits on a segment, which use a tail alone, can let a head go first: the tail then stays as a
// segment, while the head that nobody asks for does not cost room.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "base/clock.h"
#include "kv/chain_index.h"
#include "kv/ledger.h"

namespace refrain::kv {

class EvictionOrder {
 public:
  EvictionOrder(EvictionPolicy policy, std::uint32_t node_count);

  // ---- use of a node; never while it is a candidate
  void start(NodeId node, Tick now, std::uint32_t depth = 0);  // new content: used once
  void count_use(NodeId node, Tick now);                       // found and used again
  void keep_fresh(NodeId node, Tick now);  // was in use until now; not a use of its own
  // Is worth at least as much as `other` from now on. True if that changed something.
  bool keep_up_with(NodeId node, NodeId other);

  // ---- candidates
  void add(NodeId node);
  void remove(NodeId node);
  bool contains(NodeId node) const { return entries_[to_int(node)].is_candidate; }
  bool empty() const { return candidates_.empty(); }
  std::uint32_t size() const { return static_cast<std::uint32_t>(candidates_.size()); }
  NodeId first() const;  // the next to go; CHECKs that there is one
  // The same, to be given up for want of room: raises the floor.
  NodeId next_victim();
  std::vector<NodeId> candidates() const;  // in order

 private:
  struct Rank {
    std::uint64_t worth = 0;  // always 0 with lru
    Tick last_used = 0;
    std::int64_t height = 0;  // minus the depth
    std::uint64_t arrival = 0;
    NodeId node = kNoNode;
    auto operator<=>(const Rank&) const = default;
  };
  struct Entry {
    std::uint64_t uses = 0;
    std::uint64_t floor = 0;  // when it was used last
    Tick last_used = 0;
    std::uint32_t depth = 0;  // blocks to its left
    std::uint64_t arrival = 0;
    bool is_candidate = false;
  };
  std::uint64_t worth_of(const Entry& entry) const;
  Rank rank_of(NodeId node) const;

  const EvictionPolicy policy_;
  std::vector<Entry> entries_;  // [node_count]
  std::set<Rank> candidates_;
  std::uint64_t arrivals_ = 0;
  std::uint64_t floor_ = 0;  // worth of what was given up last
};

}  // namespace refrain::kv
