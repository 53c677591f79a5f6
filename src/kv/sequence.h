// Sequence: what the ledger knows about one running sequence. Plain data, owned by the ledger
// (engine thread).
//
//   position   0 ............ published*B ............ committed ...... length ........ max_total
//   table      [ shared with the tree  |  private blocks                  ][ reserved, not taken ]
//   tail                               [ tokens kept here .......... ]
//   K/V          valid .................................. ][ being computed ]
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "base/ids.h"
#include "kv/block_table.h"
#include "kv/chain_index.h"

namespace refrain::kv {

struct Sequence {
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
  TokenList tail;               // tokens behind the published blocks
  // Blocks of that path that are not in the table: somebody else published the same content
  // first and still uses it; the table keeps its own, private copy.
  std::vector<BlockId> twins;
  // Source of a copy on write; pinned until the first step is done.
  std::optional<BlockId> copy_source;
  Tick last_used = 0;
};

}  // namespace refrain::kv
