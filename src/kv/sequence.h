// Sequence: what the ledger knows about one running sequence. Plain data, owned by the ledger
// (engine thread).
//
//   position   0 ............ published*B ............ committed ...... length ........ max_total
//   table      [ shared with the tree  |  private blocks                  ][ reserved, not taken ]
//   tail                               [ tokens kept here .......... ]
//   K/V          valid .................................. ][ being computed ]
//              (trimmed: the table has blocks for length - dropped rows, and nothing is published)
//   trees      exact ........ exact_end | approximate: a block that reaches behind it is, too
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
  std::uint32_t dropped = 0;   // of the length, rows that trimming gave up
  std::uint32_t reserved = 0;  // blocks promised, not yet in the table
  // Nothing more once it is trimmed, or about to be: its tail is empty then, and when blocks of its
  // path are cut it leaves the tree: no cursor, nothing published, no twins.
  bool publishes = true;
  // Where the sequence stands in the tree: the node of its last published block. Every node from
  // there to the root is pinned by this sequence, so that nothing can be evicted above it.
  NodeId cursor = kNoNode;
  std::uint32_t published = 0;  // blocks on that path
  TokenList tail;               // tokens behind the published blocks
  // Rows from the lower of these on are approximate: reused from the second tree, or moved, or
  // computed behind such.
  std::uint32_t inherited_from = kAllExact;  // where the second tree begins in what it reuses
  std::uint32_t first_run = kAllExact;       // where its first run begins
  float inherited_divergence = 0;            // of what it reuses
  std::optional<float> divergence;           // what its owner has estimated, its runs included
  std::vector<RunSource> run_sources;        // ascending by end
  // Blocks of that path that are not in the table: somebody else published the same content
  // first and still uses it; the table keeps its own, private copy.
  std::vector<BlockId> twins;
  // Source of a copy on write; pinned until the first step is done.
  std::optional<BlockId> copy_source;
  Tick last_used = 0;

  std::uint32_t rows() const { return length - dropped; }  // that its table has
  std::uint32_t exact_end() const { return std::min(inherited_from, first_run); }
  // For the block that ends at `end`: what lies in front of the runs does not depend on them.
  float estimate(std::uint32_t end) const {
    const bool is_in_front = first_run != kAllExact && end <= first_run;
    if (end <= exact_end()) return 0;
    return is_in_front ? inherited_divergence : divergence.value_or(inherited_divergence);
  }
  // Committed tokens that may be published: nothing from its first run on while there is no
  // estimate.
  std::uint32_t publishable() const {
    return divergence ? committed : std::min(committed, first_run);
  }
};

}  // namespace refrain::kv
