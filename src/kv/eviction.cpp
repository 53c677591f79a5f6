// EvictionOrder: see eviction.h. Engine thread.
#include "kv/eviction.h"

#include <algorithm>

#include "base/check.h"

namespace refrain::kv {

std::string_view eviction_policy_name(EvictionPolicy policy) {
  switch (policy) {
    case EvictionPolicy::kLru:
      break;
    case EvictionPolicy::kLfu:
      return "lfu";
    case EvictionPolicy::kGdsf:
      return "gdsf";
  }
  return "lru";
}

std::optional<EvictionPolicy> eviction_policy_named(std::string_view name) {
  for (const EvictionPolicy policy :
       {EvictionPolicy::kLru, EvictionPolicy::kLfu, EvictionPolicy::kGdsf})
    if (eviction_policy_name(policy) == name) return policy;
  return std::nullopt;
}

EvictionOrder::EvictionOrder(EvictionPolicy policy, std::uint32_t node_count)
    : policy_(policy), entries_(node_count) {}

std::uint64_t EvictionOrder::worth_of(const Entry& entry) const {
  switch (policy_) {
    case EvictionPolicy::kLru:
      break;
    case EvictionPolicy::kLfu:
      return entry.uses;
    case EvictionPolicy::kGdsf:
      return entry.uses + entry.floor;
  }
  return 0;
}

EvictionOrder::Rank EvictionOrder::rank_of(NodeId node) const {
  const Entry& entry = entries_[to_int(node)];
  return Rank{worth_of(entry), entry.last_used, -static_cast<std::int64_t>(entry.depth),
              entry.arrival, node};
}

void EvictionOrder::start(NodeId node, Tick now, std::uint32_t depth) {
  CHECK(!contains(node), "a candidate has content already");
  entries_[to_int(node)] = Entry{.uses = 1, .floor = floor_, .last_used = now, .depth = depth};
}

void EvictionOrder::count_use(NodeId node, Tick now) {
  ++entries_[to_int(node)].uses;
  keep_fresh(node, now);
}

void EvictionOrder::keep_fresh(NodeId node, Tick now) {
  CHECK(!contains(node), "the rank of a candidate stands still");
  Entry& entry = entries_[to_int(node)];
  entry.last_used = std::max(entry.last_used, now);
  entry.floor = floor_;
}

bool EvictionOrder::keep_up_with(NodeId node, NodeId other) {
  CHECK(!contains(node), "the rank of a candidate stands still");
  Entry& entry = entries_[to_int(node)];
  const Entry& needed = entries_[to_int(other)];
  if (entry.uses >= needed.uses && entry.floor >= needed.floor) return false;
  entry.uses = std::max(entry.uses, needed.uses);
  entry.floor = std::max(entry.floor, needed.floor);
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

NodeId EvictionOrder::next_victim() {
  const NodeId victim = first();
  floor_ = std::max(floor_, worth_of(entries_[to_int(victim)]));
  return victim;
}

std::vector<NodeId> EvictionOrder::candidates() const {
  std::vector<NodeId> nodes;
  nodes.reserve(candidates_.size());
  for (const Rank& rank : candidates_) nodes.push_back(rank.node);
  return nodes;
}

}  // namespace refrain::kv
