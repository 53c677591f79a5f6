// EvictionOrder: which cached block goes next. It holds the use of every node and the set of
// candidates: nodes that nobody uses and that have no children. As only leaves are candidates, a
// chain is given up from its tail to its head; a head without its tail is still a useful prefix, a
// tail without its head is dead. Owned by the ledger (engine thread); O(log candidates).
//
//   lru   longest unused first
//   lfu   fewest uses first, of these the longest unused
//   Ties: the one that became a candidate first. No clock here; ticks come in.
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
  void start(NodeId node, Tick now);       // new content: used once
  void count_use(NodeId node, Tick now);   // found and used again
  void keep_fresh(NodeId node, Tick now);  // was in use until now; not a use of its own

  // ---- candidates
  void add(NodeId node);
  void remove(NodeId node);
  bool contains(NodeId node) const { return entries_[to_int(node)].is_candidate; }
  bool empty() const { return candidates_.empty(); }
  std::uint32_t size() const { return static_cast<std::uint32_t>(candidates_.size()); }
  NodeId first() const;                    // the next to go; CHECKs that there is one
  std::vector<NodeId> candidates() const;  // in order

 private:
  struct Rank {
    std::uint64_t uses = 0;  // always 0 with lru
    Tick last_used = 0;
    std::uint64_t arrival = 0;
    NodeId node = kNoNode;
    auto operator<=>(const Rank&) const = default;
  };
  struct Entry {
    std::uint64_t uses = 0;
    Tick last_used = 0;
    std::uint64_t arrival = 0;
    bool is_candidate = false;
  };
  Rank rank_of(NodeId node) const;

  const EvictionPolicy policy_;
  std::vector<Entry> entries_;  // [node_count]
  std::set<Rank> candidates_;
  std::uint64_t arrivals_ = 0;
};

}  // namespace refrain::kv
