// PrefixTree: see prefix_tree.h. Engine thread.
#include "kv/prefix_tree.h"

#include <algorithm>
#include <compare>

#include "base/check.h"
#include "base/str.h"

namespace refrain::kv {
namespace {

// Separates the chain hashes of the two trees where the second one begins.
constexpr std::uint64_t kSecondTree = 0x9D2C5680F1B3A7E5ULL;

std::weak_ordering compare_places(const Place& a, const Place& b) {
  if (a.parent != b.parent) return to_int(a.parent) <=> to_int(b.parent);
  if (a.is_approximate != b.is_approximate) return a.is_approximate <=> b.is_approximate;
  if (a.parent != kNoNode) return std::weak_ordering::equivalent;  // one parent, one space
  return a.space <=> b.space;
}

}  // namespace

Hash128 PrefixTree::default_hash(const Hash128& previous, std::span<const TokenId> tokens) {
  return hash_chain(previous, std::as_bytes(tokens));
}

PrefixTree::PrefixTree(std::uint32_t block_size, std::uint32_t block_count, ChainHash hash)
    : block_size_(block_size),
      hash_(hash),
      nodes_(block_count),
      tokens_(static_cast<std::size_t>(block_count) * block_size),
      node_of_block_(block_count, kNoNode),
      chains_(block_count),
      order_(ByTokens{this}) {
  unused_.reserve(block_count);
  for (std::uint32_t i = block_count; i > 0; --i) unused_.push_back(NodeId{i - 1});
}

// ---- order of siblings

bool PrefixTree::ByTokens::operator()(NodeId a, NodeId b) const {
  return (*this)(a, tree->key_of(b));
}

bool PrefixTree::ByTokens::operator()(NodeId a, const ChildKey& b) const {
  const ChildKey key = tree->key_of(a);
  const auto places = compare_places(key.place, b.place);
  if (places != 0) return places < 0;
  return std::ranges::lexicographical_compare(key.tokens, b.tokens);
}

bool PrefixTree::ByTokens::operator()(const ChildKey& a, NodeId b) const {
  const ChildKey key = tree->key_of(b);
  const auto places = compare_places(a.place, key.place);
  if (places != 0) return places < 0;
  return std::ranges::lexicographical_compare(a.tokens, key.tokens);
}

PrefixTree::ChildKey PrefixTree::key_of(NodeId node) const {
  return ChildKey{place_of(node), tokens_of(node)};
}

std::span<const TokenId> PrefixTree::tokens_of(NodeId node) const {
  const std::size_t begin = static_cast<std::size_t>(to_int(node)) * block_size_;
  return std::span(tokens_).subspan(begin, at(node).token_count);
}

bool PrefixTree::hangs_at(NodeId node, const Place& place) const {
  const Node& stored = at(node);
  return stored.parent == place.parent && stored.is_approximate == place.is_approximate &&
         (place.parent != kNoNode || stored.space == place.space);
}

bool PrefixTree::begins_second_tree(const Place& place) const {
  return place.is_approximate && (place.parent == kNoNode || !at(place.parent).is_approximate);
}

Hash128 PrefixTree::chain_at(const Place& place) const {
  Hash128 chain = place.parent == kNoNode ? place.space : at(place.parent).chain;
  if (begins_second_tree(place)) chain.high ^= kSecondTree;
  return chain;
}

// ---- finding

NodeId PrefixTree::find_full(const Place& place, std::span<const TokenId> tokens) const {
  const Hash128 hash = hash_(chain_at(place), tokens);
  for (NodeId node = chains_.first(hash); node != kNoNode; node = chains_.next(node))
    if (hangs_at(node, place) && std::ranges::equal(tokens_of(node), tokens)) return node;
  return kNoNode;
}

std::uint32_t PrefixTree::common_tokens(NodeId node, const ChildKey& key) const {
  const auto [stored, wanted] = std::ranges::mismatch(tokens_of(node), key.tokens);
  return static_cast<std::uint32_t>(wanted - key.tokens.begin());
}

ClosestChild PrefixTree::closest_child(const Place& place, std::span<const TokenId> tokens) const {
  const ChildKey key{place, tokens};
  const auto after = order_.lower_bound(key);
  ClosestChild best;
  // The one after first: of equally close children it is the one that can cover `tokens` whole.
  if (after != order_.end() && hangs_at(*after, place))
    best = ClosestChild{*after, common_tokens(*after, key)};
  if (after != order_.begin()) {
    const NodeId before = *std::prev(after);
    if (hangs_at(before, place)) {
      const std::uint32_t common = common_tokens(before, key);
      if (best.node == kNoNode || common > best.common_tokens) best = ClosestChild{before, common};
    }
  }
  return best;
}

PrefixMatch PrefixTree::match(const Hash128& space, std::span<const TokenId> tokens) const {
  PrefixMatch match;
  Place place{space, kNoNode};
  while (tokens.size() >= block_size_) {
    const NodeId node = find_full(place, tokens.first(block_size_));
    if (node == kNoNode) break;
    match.full.push_back(node);
    place.parent = node;
    tokens = tokens.subspan(block_size_);
  }
  const auto rest = tokens.first(std::min<std::size_t>(tokens.size(), block_size_));
  const ClosestChild child = closest_child(place, rest);
  if (child.node == kNoNode) return match;
  if (child.common_tokens > 0) {
    match.partial = child.node;
    match.partial_tokens = child.common_tokens;
  }
  match.something_follows = child.common_tokens < at(child.node).token_count;
  return match;
}

std::vector<NodeId> PrefixTree::nodes() const {
  std::vector<NodeId> used;
  for (std::uint32_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].token_count > 0) used.push_back(NodeId{i});
  return used;
}

// ---- changing

void PrefixTree::store(NodeId node, std::span<const TokenId> tokens, BlockId block,
                       float divergence) {
  Node& stored = at(node);
  CHECK(node_of(block) == kNoNode, "a block stores one run of tokens only");
  stored.block = block;
  stored.divergence = divergence;
  stored.token_count = static_cast<std::uint32_t>(tokens.size());
  node_of_block_[to_int(block)] = node;
  std::ranges::copy(tokens,
                    tokens_.begin() + static_cast<std::ptrdiff_t>(to_int(node)) * block_size_);
  if (is_full(node)) {
    stored.chain = hash_(chain_at(place_of(node)), tokens);
    chains_.insert(node, stored.chain);
  }
  order_.insert(node);
}

void PrefixTree::count_child(const Place& place, int change) {
  approximate_count_ += static_cast<std::uint32_t>(place.is_approximate ? change : 0);
  if (place.parent == kNoNode) return;
  at(place.parent).child_count += static_cast<std::uint32_t>(change);
  if (begins_second_tree(place))
    at(place.parent).approximate_children += static_cast<std::uint32_t>(change);
}

Publication PrefixTree::publish(const Place& place, std::span<const TokenId> tokens, BlockId block,
                                float divergence) {
  CHECK(!tokens.empty() && tokens.size() <= block_size_, "a block holds 1..block_size tokens");
  CHECK(place.parent == kNoNode || is_full(place.parent), "only a full block has a continuation");
  CHECK(place.parent == kNoNode || place.is_approximate || !is_approximate(place.parent),
        "nothing behind approximate K/V is exact");
  const ClosestChild closest = closest_child(place, tokens);
  if (closest.node != kNoNode && closest.common_tokens == tokens.size())
    return Publication{PublishOutcome::kCovered, closest.node};
  if (closest.node != kNoNode && closest.common_tokens == at(closest.node).token_count) {
    const BlockId displaced = block_of(closest.node);
    order_.erase(closest.node);  // its key is about to change
    node_of_block_[to_int(displaced)] = kNoNode;
    store(closest.node, tokens, block, divergence);
    return Publication{PublishOutcome::kExtended, closest.node, displaced};
  }
  CHECK(!unused_.empty(), "more nodes than blocks");
  const NodeId node = unused_.back();
  unused_.pop_back();
  at(node) =
      Node{.parent = place.parent, .is_approximate = place.is_approximate, .space = place.space};
  if (place.parent != kNoNode) at(node).depth = at(place.parent).depth + 1;
  count_child(place, +1);
  store(node, tokens, block, divergence);
  return Publication{PublishOutcome::kInserted, node};
}

void PrefixTree::move_to_block(NodeId node, BlockId block, float divergence) {
  CHECK(node_of(block) == kNoNode, "a block stores one run of tokens only");
  node_of_block_[to_int(at(node).block)] = kNoNode;
  node_of_block_[to_int(block)] = node;
  at(node).block = block;
  at(node).divergence = divergence;
}

std::vector<NodeId> PrefixTree::children_of(NodeId node) const {
  std::vector<NodeId> children;
  if (is_leaf(node)) return children;
  const Place first{at(node).space, node, is_approximate(node)};
  for (auto child = order_.lower_bound(ChildKey{first, {}});
       child != order_.end() && at(*child).parent == node; ++child)
    children.push_back(*child);
  return children;
}

void PrefixTree::unlink(NodeId node) {
  if (is_full(node)) chains_.erase(node);
  order_.erase(node);
}

void PrefixTree::remove(NodeId node) {
  for (NodeId child : children_of(node)) {
    unlink(child);  // while its place is still the one it is sorted by
    at(child).parent = kNoNode;
    at(child).is_detached = true;
  }
  if (!is_detached(node)) unlink(node);
  node_of_block_[to_int(at(node).block)] = kNoNode;
  count_child(place_of(node), -1);
  at(node) = Node{};
  unused_.push_back(node);
}

// ---- checking

std::string PrefixTree::verify_node(NodeId node, std::uint32_t child_count) const {
  const Node& stored = at(node);
  const auto broken = [&](const char* what) { return str_cat("node ", to_int(node), ": ", what); };
  if (stored.token_count > block_size_) return broken("more tokens than a block holds");
  if (stored.child_count != child_count) return broken("wrong count of children");
  if (!is_full(node) && child_count > 0) return broken("a part of a block has children");
  if (node_of(stored.block) != node) return broken("its block belongs to another node");
  if (stored.parent != kNoNode) {
    if (at(stored.parent).token_count != block_size_) return broken("its parent is not full");
    if (at(stored.parent).space != stored.space) return broken("its parent is in another space");
    if (at(stored.parent).depth + 1 != stored.depth)
      return broken("not one deeper than its parent");
    if (is_approximate(stored.parent) && !stored.is_approximate)
      return broken("exact behind approximate K/V");
  }
  if (stored.is_approximate ? !(stored.divergence >= 0) : stored.divergence != 0)
    return broken("a divergence that its tree does not allow");
  if (stored.is_detached)
    return stored.parent == kNoNode && stored.depth > 0 ? ""
                                                        : broken("detached, yet it has a place");
  if (stored.parent == kNoNode && stored.depth != 0) return broken("a first block in the middle");
  if (is_full(node) && find_full(place_of(node), tokens_of(node)) != node)
    return broken("not found by its chain hash");
  if (!order_.contains(node)) return broken("not found by its tokens");
  return {};
}

std::string PrefixTree::verify_order() const {
  for (auto node = order_.begin(); node != order_.end(); ++node) {
    const auto next = std::next(node);
    if (next == order_.end()) break;
    // Sorted, a prefix stands directly before what it begins.
    if (hangs_at(*next, place_of(*node)) &&
        common_tokens(*node, key_of(*next)) == at(*node).token_count)
      return str_cat("node ", to_int(*node), " is the beginning of its sibling ", to_int(*next));
  }
  return {};
}

std::string PrefixTree::verify_trees() const {
  std::vector<std::uint32_t> branches(nodes_.size(), 0);
  std::uint32_t approximate = 0;
  for (NodeId node : nodes()) {
    if (!is_approximate(node)) continue;
    ++approximate;
    if (at(node).parent != kNoNode && begins_second_tree(place_of(node)))
      ++branches[to_int(at(node).parent)];
  }
  if (approximate != approximate_count_) return "wrong count of approximate nodes";
  for (NodeId node : nodes())
    if (at(node).approximate_children != branches[to_int(node)])
      return str_cat("node ", to_int(node), ": wrong count of approximate children");
  return {};
}

std::string PrefixTree::verify() const {
  std::vector<std::uint32_t> child_counts(nodes_.size(), 0);
  std::uint32_t used = 0;
  std::uint32_t attached = 0;
  std::uint32_t full = 0;  // of the attached ones
  for (const Node& node : nodes_) {
    if (node.token_count == 0) continue;
    ++used;
    if (!node.is_detached) ++attached;
    if (!node.is_detached && node.token_count == block_size_) ++full;
    if (node.parent != kNoNode) ++child_counts[to_int(node.parent)];
  }
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].token_count == 0) continue;
    if (auto broken = verify_node(NodeId{i}, child_counts[i]); !broken.empty()) return broken;
  }
  std::uint32_t blocks = 0;
  for (NodeId node : node_of_block_) blocks += node != kNoNode ? 1U : 0U;
  if (blocks != used) return str_cat(used, " nodes but ", blocks, " blocks with a node");
  if (order_.size() != attached)
    return str_cat(attached, " attached nodes but ", order_.size(), " in order");
  if (chains_.size() != full) return str_cat(full, " full nodes but ", chains_.size(), " hashes");
  if (unused_.size() + used != nodes_.size()) return "nodes are lost";
  if (auto broken = verify_trees(); !broken.empty()) return broken;
  return verify_order();
}

}  // namespace refrain::kv
