// Searching a prompt for stored text at any place (DESIGN: any-segment reuse). Plain functions over
// the prefix tree and the segment index; const, engine thread.
//
//   stored chain      [ . a b c ][ d e f g ][ h i j k ][ l m        rows of one text
//   query         x y     a b c   d e f g    h i j k    l z w
//                         ^left   ^ whole blocks, found by hash     ^right: token by token
//   run                   [ begin .......................... end )
//
// The query is looked at from its tail backwards, at every token offset. A hash proposes a node,
// its tokens decide. A run goes on to the left while the parent of its first node stands in front
// of it; where it ends, it is extended on both sides token by token. So every run contains a whole
// stored block, and none can be extended. Where runs overlap the longest one wins, and the others
// lose what it covers; what is then shorter than the minimum is dropped.
//
// Cost: O(query). At each offset at most `candidates` nodes are looked at, and at most `open_runs`
// runs are carried on per offset modulo block_size, the longest; only a text that repeats itself
// reaches these limits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/hash.h"
#include "base/ids.h"
#include "kv/prefix_tree.h"
#include "kv/segment_index.h"

namespace refrain::kv {

struct SearchLimits {
  std::uint32_t candidates = 8;
  std::uint32_t open_runs = 8;
};

// Tokens [begin, end) of the query are stored in one chain, the last of them in row `last_row` of
// `last`; the ones before it in the rows before, and in those of its ancestors.
struct FoundRun {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  NodeId last = kNoNode;
  std::uint32_t last_row = 0;
  std::uint32_t length() const { return end - begin; }
};

// Ascending, not overlapping, each at least `min_length` (> 0) tokens long.
std::vector<FoundRun> find_runs(const PrefixTree& tree, const SegmentIndex& index,
                                const Hash128& space, std::span<const TokenId> query,
                                std::uint32_t min_length, const SearchLimits& limits = {});

}  // namespace refrain::kv
