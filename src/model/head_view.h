// HeadView: which rows each layer and KV head of a trimmed sequence sees in the middle of its
// context: of each others, and of some more than of others. The rows are kept in blocks of the
// sequence's own, which have room for 16 rows (a tile) of every layer and head; a head that keeps
// more takes the room of one that keeps less, for tiles of all layers and heads are alike. So what
// is kept takes the memory of those blocks and no more. Built once, at the cut; engine thread.
//
//   blocks of its own     g0        g1        g2                 2 layers x 1 head: 6 tiles
//   layer 0          [ tile 0 | tile 1 | tile 2 ]
//   layer 1          [ tile 3 | tile 4 | tile 5 ]
//   a view                layer 0: tile 0                        keeps 16 rows
//                         layer 1: tiles 1 2 3 4 5               keeps 80
//
// The rows in front of these blocks and behind them are those of the table, for every head.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "kernels/paged_attention.h"
#include "model/kv_arena.h"

namespace refrain::model {

class HeadView {
 public:
  // `blocks`: those of its own, at rows [first_row, ...) of the table. tile_counts [layers x
  // kv_head_count], together no more than these blocks have.
  HeadView(const KvArena& arena, std::uint32_t first_row, std::span<const BlockId> blocks,
           std::span<const std::uint32_t> tile_counts);
  HeadView(const HeadView&) = delete;
  HeadView& operator=(const HeadView&) = delete;

  // Fills the tiles of a layer and head with rows of `slots`: 16 for each tile.
  void gather(KvArena& arena, std::uint32_t layer, std::uint32_t head,
              std::span<const std::size_t> slots) const;

  const kernels::AttentionView& seen() const { return seen_; }

 private:
  std::uint32_t kv_head_count_ = 0;
  std::vector<kernels::TilePlace> tiles_;
  std::vector<kernels::AttentionView::Head> heads_;  // [layers][kv_head_count], into tiles_
  kernels::AttentionView seen_;
};

}  // namespace refrain::model
