// ChainIndex: see chain_index.h. Engine thread.
#include "kv/chain_index.h"

#include <bit>

#include "base/check.h"
#include "base/ids.h"

namespace refrain::kv {

ChainIndex::ChainIndex(std::uint32_t node_count)
    : buckets_(std::bit_ceil(static_cast<std::size_t>(node_count) + 1), kNoNode),
      links_(node_count) {}

std::uint32_t ChainIndex::bucket_of(const Hash128& hash) const {
  return static_cast<std::uint32_t>(Hash128Hasher{}(hash) & (buckets_.size() - 1));
}

NodeId ChainIndex::skip_to(NodeId node, const Hash128& hash) const {
  while (node != kNoNode && links_[to_int(node)].hash != hash) node = links_[to_int(node)].next;
  return node;
}

NodeId ChainIndex::first(const Hash128& hash) const {
  return skip_to(buckets_[bucket_of(hash)], hash);
}

NodeId ChainIndex::next(NodeId node) const {
  const Link& link = links_[to_int(node)];
  return skip_to(link.next, link.hash);
}

void ChainIndex::insert(NodeId node, const Hash128& hash) {
  NodeId& head = buckets_[bucket_of(hash)];
  links_[to_int(node)] = Link{hash, head};
  head = node;
  ++size_;
}

void ChainIndex::erase(NodeId node) {
  NodeId* link = &buckets_[bucket_of(links_[to_int(node)].hash)];
  while (*link != node) {
    CHECK(*link != kNoNode, "erase() of a node that is not in the index");
    link = &links_[to_int(*link)].next;
  }
  *link = links_[to_int(node)].next;
  --size_;
}

}  // namespace refrain::kv
