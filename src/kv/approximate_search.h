// Searching the second tree (kv/prefix_tree.h): where approximate K/V that an earlier request
// computed go on behind an exact beginning. A plain function over the prefix tree; const, engine
// thread.
//
//   exact tree    [ a ][ b ][ c ][ d                     prompt  a b c d e f g
//   second tree        |    +~~~ [ d ][ e ][ f           begins behind b: reaches f
//                      +~~~ [ c ][ d ]                   begins behind a: reaches d
//
// What reaches furthest wins, counted in tokens; of equals the exact one, then the one with the
// longest exact beginning.
//
// Cost: O(tokens / block_size): all paths are followed at once, at most kOpenPaths of them. Only
// nodes that have approximate children are asked.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/hash.h"
#include "base/ids.h"
#include "kv/prefix_tree.h"

namespace refrain::kv {

constexpr std::size_t kOpenPaths = 8;

struct ApproximateMatch {
  std::uint32_t exact_blocks = 0;  // of the exact match, in front of it
  std::vector<NodeId> full;        // whole blocks of the second tree
  NodeId partial = kNoNode;        // a child of the last one that shares the next tokens
  std::uint32_t partial_tokens = 0;
  float divergence = 0;  // the largest on the path
  bool empty() const { return full.empty() && partial_tokens == 0; }
};

// `exact` is the exact match of `tokens`. Empty if nothing reaches further than that. Nodes that
// diverge by more than `max_divergence` are not seen.
ApproximateMatch find_approximate(const PrefixTree& tree, const Hash128& space,
                                  std::span<const TokenId> tokens, const PrefixMatch& exact,
                                  float max_divergence);

}  // namespace refrain::kv
