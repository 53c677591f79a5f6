// Ledger::verify(): every invariant, checked from scratch. Engine thread; O(blocks) and the tables.
#include <algorithm>
#include <set>

#include "base/str.h"
#include "kv/ledger_impl.h"

namespace refrain::kv {

std::string Ledger::Impl::verify() const {
  if (auto broken = pool_.verify(); !broken.empty()) return broken;
  if (auto broken = tree_.verify(); !broken.empty()) return broken;
  if (auto broken = segments_.verify(); !broken.empty()) return broken;
  std::vector<std::uint32_t> holders(pool_.total(), 0);
  for (const auto& [id, sequence] : sequences_)
    if (auto broken = verify_sequence(sequence, holders); !broken.empty())
      return str_cat("sequence ", to_int(id), ": ", broken);
  for (std::uint32_t i = 0; i < pool_.total(); ++i)
    if (auto broken = verify_block(BlockId{i}, holders[i]); !broken.empty())
      return str_cat("block ", i, ": ", broken);
  return verify_totals();
}

// Counts into `holders` each reference this sequence should have.
std::string Ledger::Impl::verify_sequence(const Sequence& sequence,
                                          std::vector<std::uint32_t>& holders) const {
  for (BlockId block : sequence.table) ++holders.at(to_int(block));
  for (BlockId block : sequence.twins) ++holders.at(to_int(block));
  if (sequence.copy_source) ++holders.at(to_int(*sequence.copy_source));
  for (const RunSource& source : sequence.run_sources)
    for (BlockId block : source.blocks) ++holders.at(to_int(block));

  if (sequence.committed > sequence.length || sequence.length > sequence.max_total)
    return "committed <= length <= max_total does not hold";
  if (sequence.dropped > sequence.committed || sequence.dropped % options_.block_size != 0)
    return "what was trimmed is not whole blocks of what was committed";
  if (sequence.table.size() != blocks_for(sequence.rows()))
    return "its table does not cover exactly its tokens";
  if (sequence.table.size() + sequence.reserved !=
      blocks_for(sequence.max_total - sequence.dropped))
    return "blocks taken and reserved are not its worst case";
  if (std::set<BlockId>(sequence.table.begin(), sequence.table.end()).size() !=
      sequence.table.size())
    return "a block stands twice in its table";
  return verify_published(sequence);
}

std::string Ledger::Impl::verify_published(const Sequence& sequence) const {
  std::uint32_t last_end = std::max(sequence.committed, sequence.first_run);
  for (const RunSource& source : sequence.run_sources) {
    if (source.end <= last_end) return "a run is pinned that lies before what is committed";
    last_end = source.end;
  }
  if (!options_.prefix_cache)
    return sequence.published == 0 && sequence.tail.empty() ? ""
                                                            : "the cache is off, yet it has some";
  if (!sequence.publishes) return verify_trimmed(sequence);
  if (sequence.published != sequence.publishable() / options_.block_size)
    return "published are not exactly the full committed blocks that may be";
  if (sequence.tail.size() !=
      sequence.length - static_cast<std::size_t>(sequence.published) * options_.block_size)
    return "its tail does not begin behind its published blocks";
  return verify_path(sequence);
}

// It may still stand in the tree until blocks of its path are cut, but nothing is added.
std::string Ledger::Impl::verify_trimmed(const Sequence& sequence) const {
  if (!sequence.tail.empty()) return "it publishes no more, yet keeps tokens for that";
  if (sequence.dropped == 0) return verify_path(sequence);
  if (sequence.cursor != kNoNode || sequence.published != 0 || !sequence.twins.empty())
    return "it is trimmed, yet stands in the tree";
  return {};
}

// From the cursor to the root: each node's block is the one in the table, or a twin of it.
std::string Ledger::Impl::verify_path(const Sequence& sequence) const {
  std::set<BlockId> twins(sequence.twins.begin(), sequence.twins.end());
  if (twins.size() != sequence.twins.size()) return "a twin is held twice";
  NodeId node = sequence.cursor;
  for (std::uint32_t i = sequence.published; i > 0; --i) {
    if (node == kNoNode) return "its path is shorter than its published blocks";
    if (!tree_.is_full(node) || tree_.is_detached(node) || tree_.space_of(node) != sequence.space)
      return "its path leads through a foreign node";
    if (tree_.is_approximate(node) != (i * options_.block_size > sequence.exact_end()))
      return "its path is in the wrong tree";
    const BlockId own = sequence.table[i - 1];
    if (tree_.block_of(node) != own) {
      if (twins.erase(tree_.block_of(node)) == 0) return "a node of its path is not pinned by it";
      if (tree_.node_of(own) != kNoNode) return "a private twin has a node";
    }
    node = tree_.parent_of(node);
  }
  if (node != kNoNode) return "its path is longer than its published blocks";
  if (!twins.empty()) return "it holds a twin that is not on its path";
  for (std::size_t i = sequence.published; i < sequence.table.size(); ++i)
    if (tree_.node_of(sequence.table[i]) != kNoNode) return "an unpublished block has a node";
  return {};
}

std::string Ledger::Impl::verify_block(BlockId block, std::uint32_t holders) const {
  if (pool_.references(block) != holders)
    return str_cat(pool_.references(block), " references but ", holders, " holders");
  const NodeId node = tree_.node_of(block);
  const BlockState state = pool_.state(block);
  if (state == BlockState::kFree && node != kNoNode) return "free, but in the tree";
  if (state == BlockState::kEvictable && node == kNoNode) return "evictable without content";
  if (node == kNoNode) return {};
  if (eviction_.contains(node) != (state == BlockState::kEvictable))
    return "candidates for eviction are not the unpinned blocks";
  return {};
}

std::string Ledger::Impl::verify_totals() const {
  const LedgerCounts now = counts();
  if (now.free + now.evictable + now.pinned != now.total)
    return "free + evictable + pinned is not the total";
  std::uint64_t reserved = 0;
  for (const auto& [id, sequence] : sequences_) reserved += sequence.reserved;
  if (reserved != reserved_) return "the sum of reservations is wrong";
  if (reserved_ > available())
    return str_cat("promised ", reserved_, " blocks, available ", available());
  if (options_.max_cached_blocks > 0 && now.evictable > options_.max_cached_blocks)
    return str_cat(now.evictable, " cached blocks, the cap is ", options_.max_cached_blocks);
  std::uint32_t candidates = 0;
  for (NodeId node : eviction_.candidates()) {
    if (tree_.node_of(tree_.block_of(node)) != node) return "a candidate for eviction has no block";
    ++candidates;
  }
  if (now.evictable > 0 && candidates == 0) return "evictable blocks without a candidate";
  if (totals_.hit_tokens + totals_.approximate_tokens > totals_.queried_tokens)
    return "more hits than queries";
  return {};
}

}  // namespace refrain::kv
