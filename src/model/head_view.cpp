// See head_view.h.
#include "model/head_view.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace refrain::model {

using kernels::kTileTokens;

HeadView::HeadView(const KvArena& arena, std::uint32_t first_row, std::span<const BlockId> blocks,
                   std::span<const std::uint32_t> tile_counts)
    : kv_head_count_(arena.layout().kv_head_count) {
  const std::size_t block_tiles = arena.block_size() / kTileTokens;
  const auto wanted = std::accumulate(tile_counts.begin(), tile_counts.end(), std::size_t{0});
  CHECK(tile_counts.size() % kv_head_count_ == 0 &&
            wanted <= tile_counts.size() * blocks.size() * block_tiles,
        "more rows than there is room for");
  // Room is handed out in the order it lies in memory, so that a head's tiles are neighbours.
  tiles_.reserve(wanted);
  for (std::uint32_t lane = 0; tiles_.size() < wanted; ++lane) {
    for (std::size_t i = 0; i < blocks.size() * block_tiles && tiles_.size() < wanted; ++i) {
      const std::size_t tile = to_int(blocks[i / block_tiles]) * block_tiles + i % block_tiles;
      tiles_.push_back(arena.tile(lane / kv_head_count_, lane % kv_head_count_, tile));
    }
  }
  const kernels::TilePlace* at = tiles_.data();
  for (const std::uint32_t count : tile_counts) {
    heads_.push_back({at, count});
    at += count;
  }
  seen_ = {.begin = first_row,
           .end = first_row + static_cast<std::uint32_t>(blocks.size()) * arena.block_size(),
           .most_tiles = *std::max_element(tile_counts.begin(), tile_counts.end()),
           .heads = heads_.data()};
}

void HeadView::gather(KvArena& arena, std::uint32_t layer, std::uint32_t head,
                      std::span<const std::size_t> slots) const {
  const kernels::AttentionView::Head& own = heads_[layer * kv_head_count_ + head];
  CHECK(slots.size() == std::size_t{own.tile_count} * kTileTokens, "tiles are filled whole");
  for (std::uint32_t i = 0; i < own.tile_count; ++i)
    arena.gather(layer, head, slots.subspan(std::size_t{i} * kTileTokens, kTileTokens),
                 own.tiles[i]);
}

}  // namespace refrain::model
