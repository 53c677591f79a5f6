// EvictionOrder: see eviction.h. Engine thread.
#include "kv/eviction.h"

#include <algorithm>

#include "base/check.h"

namespace refrain::kv {

EvictionOrder::EvictionOrder(EvictionPolicy policy, std::uint32_t node_count)
    : policy_(policy), entries_(node_count) {}

EvictionOrder::Rank EvictionOrder::rank_of(NodeId node) const {
  const Entry& entry = entries_[to_int(node)];
  return Rank{policy_ == EvictionPolicy::kLfu ? entry.uses : 0, entry.last_used,
              -static_cast<std::int64_t>(entry.depth), entry.arrival, node};
}

void EvictionOrder::start(NodeId node, Tick now, std::uint32_t depth) {
  CHECK(!contains(node), "a candidate has content already");
  entries_[to_int(node)] = Entry{.uses = 1, .last_used = now, .depth = depth};
}

void EvictionOrder::count_use(NodeId node, Tick now) {
  ++entries_[to_int(node)].uses;
  keep_fresh(node, now);
}

void EvictionOrder::keep_fresh(NodeId node, Tick now) {
  CHECK(!contains(node), "the rank of a candidate stands still");
  Tick& last_used = entries_[to_int(node)].last_used;
  last_used = std::max(last_used, now);
}

bool EvictionOrder::keep_up_with(NodeId node, NodeId other) {
  CHECK(!contains(node), "the rank of a candidate stands still");
  std::uint64_t& uses = entries_[to_int(node)].uses;
  if (uses >= entries_[to_int(other)].uses) return false;
  uses = entries_[to_int(other)].uses;
  return true;
}

void EvictionOrder::add(NodeId node) {
  Entry& entry = entries_[to_int(node)];
  CHECK(!entry.is_candidate, "a node is a candidate once");
  entry.arrival = arrivals_++;
  entry.is_candidate = true;
  candidates_.insert(rank_of(node));
}

void EvictionOrder::remove(NodeId node) {
  Entry& entry = entries_[to_int(node)];
  CHECK(entry.is_candidate, "remove() of a node that is no candidate");
  candidates_.erase(rank_of(node));
  entry.is_candidate = false;
}

NodeId EvictionOrder::first() const {
  CHECK(!candidates_.empty(), "nothing can be evicted");
  return candidates_.begin()->node;
}

std::vector<NodeId> EvictionOrder::candidates() const {
  std::vector<NodeId> nodes;
  nodes.reserve(candidates_.size());
  for (const Rank& rank : candidates_) nodes.push_back(rank.node);
  return nodes;
}

}  // namespace refrain::kv
