// Sequence: what the ledger knows about one running sequence. Plain data, owned by the ledger
// (engine thread).
//
//   position   0 ............ published*B ............ committed ...... length ........ max_total
//   table      [ shared with the tree  |  private blocks                  ][ reserved, not taken ]
//   tail                               [ tokens kept here .......... ]
//   K/V          valid .................................. ][ being computed ]
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "base/ids.h"
#include "kv/block_table.h"
#include "kv/chain_index.h"

namespace refrain::kv {

// Blocks that a run is moved from, pinned until its end is committed.
struct RunSource {
  std::uint32_t end = 0;  // of the run, in the sequence
  std::vector<BlockId> blocks;
};

struct Sequence {
  static constexpr std::uint32_t kAllExact = 0xFFFFFFFFU;

  Hash128 space{};
  BlockTable table;             // append-only while tokens are committed
  std::uint32_t length = 0;     // tokens appended
  std::uint32_t committed = 0;  // of those, with valid K/V
  std::uint32_t max_total = 0;
  std::uint32_t reserved = 0;  // blocks promised, not yet in the table
  // Where the sequence stands in the tree: the node of its last published block. Every node from
  // there to the root is pinned by this sequence, so that nothing can be evicted above it.
  NodeId cursor = kNoNode;
  std::uint32_t published = 0;  // blocks on that path
  TokenList tail;               // exact tokens behind the published blocks
  // Rows from this position on are moved, or were computed behind moved ones: never published.
  std::uint32_t exact_end = kAllExact;
  std::vector<RunSource> run_sources;  // ascending by end
  // Blocks of that path that are not in the table: somebody else published the same content
  // first and still uses it; the table keeps its own, private copy.
  std::vector<BlockId> twins;
  // Source of a copy on write; pinned until the first step is done.
  std::optional<BlockId> copy_source;
  Tick last_used = 0;

  std::uint32_t exact_part(std::uint32_t token_count) const {
    return std::min(token_count, exact_end);
  }
};

}  // namespace refrain::kv
