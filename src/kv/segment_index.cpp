// SegmentIndex: see segment_index.h. Engine thread.
#include "kv/segment_index.h"

#include <bit>

#include "base/check.h"
#include "base/str.h"

namespace refrain::kv {
namespace {

constexpr std::uint64_t kModulus = (1ULL << 61U) - 1;
static_assert(RollingHash::kBase < kModulus);

std::uint64_t reduce(std::uint64_t value) {
  return value >= kModulus ? value - kModulus : value;
}

std::uint64_t multiply(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return reduce((static_cast<std::uint64_t>(product) & kModulus) +
                static_cast<std::uint64_t>(product >> 61U));
}

// Never 0, so that a window of tokens 0 differs from nothing.
std::uint64_t digit(TokenId token) {
  return static_cast<std::uint32_t>(to_int(token)) + 1ULL;
}

}  // namespace

RollingHash::RollingHash(std::uint32_t width, std::uint64_t base) : base_(base) {
  CHECK(base < kModulus, "a base is smaller than the modulus");
  for (std::uint32_t i = 1; i < width; ++i) highest_power_ = multiply(highest_power_, base);
}

std::uint64_t RollingHash::of(std::span<const TokenId> window) const {
  std::uint64_t hash = 0;
  for (auto token = window.rbegin(); token != window.rend(); ++token)
    hash = reduce(multiply(hash, base_) + digit(*token));
  return hash;
}

std::uint64_t RollingHash::step_left(std::uint64_t hash, TokenId first, TokenId last) const {
  const std::uint64_t gone = multiply(digit(last), highest_power_);
  return reduce(multiply(reduce(hash + kModulus - gone), base_) + digit(first));
}

SegmentIndex::SegmentIndex(const PrefixTree& tree, std::uint32_t block_count, std::uint64_t base)
    : tree_(tree),
      hash_(tree.block_size(), base),
      buckets_(std::bit_ceil((static_cast<std::size_t>(block_count) + 1) * 4), kNoNode),
      entries_(block_count) {}

std::size_t SegmentIndex::bucket_of(const Hash128& space, std::uint64_t hash) const {
  const std::uint64_t mixed = (hash + space.low) * 0x9E3779B97F4A7C15ULL;
  return static_cast<std::size_t>(mixed >> 32U) & (buckets_.size() - 1);
}

bool SegmentIndex::is_key(NodeId node, const Hash128& space, std::uint64_t hash) const {
  return at(node).hash == hash && tree_.space_of(node) == space;
}

NodeId SegmentIndex::first(const Hash128& space, std::uint64_t hash) const {
  NodeId group = buckets_[bucket_of(space, hash)];
  while (group != kNoNode && !is_key(group, space, hash)) group = at(group).next_group;
  return group;
}

NodeId* SegmentIndex::link_to_group(const Hash128& space, std::uint64_t hash) {
  NodeId* link = &buckets_[bucket_of(space, hash)];
  while (*link != kNoNode && !is_key(*link, space, hash)) link = &at(*link).next_group;
  return link;
}

void SegmentIndex::insert(NodeId node) {
  CHECK(tree_.is_full(node), "only whole blocks are indexed");
  CHECK(!tree_.is_approximate(node), "what is approximate is not moved again");
  CHECK(!at(node).is_stored, "a node is indexed once");
  const std::uint64_t hash = hash_.of(tree_.tokens_of(node));
  NodeId* link = link_to_group(tree_.space_of(node), hash);
  Entry& entry = at(node);
  entry = Entry{.hash = hash, .next = *link, .is_stored = true};
  if (*link != kNoNode) {  // takes the place of the newest so far
    Entry& newest = at(*link);
    entry.next_group = newest.next_group;
    newest.next_group = kNoNode;
    newest.previous = node;
  }
  *link = node;
  ++size_;
}

void SegmentIndex::erase(NodeId node) {
  Entry& entry = at(node);
  CHECK(entry.is_stored, "erase() of a node that is not indexed");
  if (entry.next != kNoNode) at(entry.next).previous = entry.previous;
  if (entry.previous != kNoNode) {
    at(entry.previous).next = entry.next;
  } else {
    NodeId* link = link_to_group(tree_.space_of(node), entry.hash);
    *link = entry.next_group;
    if (entry.next != kNoNode) {
      at(entry.next).next_group = entry.next_group;
      *link = entry.next;
    }
  }
  entry = Entry{};
  --size_;
}

std::string SegmentIndex::verify() const {
  const auto broken = [](NodeId node, const char* what) {
    return str_cat("segment index, node ", to_int(node), ": ", what);
  };
  std::uint32_t whole = 0;
  for (NodeId node : tree_.nodes()) {
    if (at(node).is_stored != (tree_.is_full(node) && !tree_.is_approximate(node)))
      return broken(node, "whole exact nodes are not exactly those indexed");
    if (!at(node).is_stored) continue;
    ++whole;
    if (at(node).hash != hash_.of(tree_.tokens_of(node))) return broken(node, "a foreign hash");
    const NodeId previous = at(node).previous;
    if (previous == kNoNode) {
      if (first(tree_.space_of(node), at(node).hash) != node) return broken(node, "not found");
    } else if (!is_key(previous, tree_.space_of(node), at(node).hash) ||
               at(previous).next != node) {
      return broken(node, "stands in the wrong group");
    }
  }
  if (whole != size_) return str_cat("segment index: ", size_, " nodes, ", whole, " are whole");
  return {};
}

}  // namespace refrain::kv
