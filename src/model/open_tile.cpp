// See open_tile.h.
#include "model/open_tile.h"

#include <algorithm>

#include "base/check.h"
#include "model/batch.h"

namespace refrain::model {
namespace {

using kernels::kTileTokens;
using kernels::RemainderRow;

constexpr auto kTileStep = static_cast<Position>(kTileTokens);

Position tile_of(Position position) {
  return position / kTileStep * kTileStep;
}

std::size_t place_in_tile(Position position) {
  return static_cast<std::size_t>(position % kTileStep);
}

}  // namespace

std::uint64_t OpenTile::bytes() const {
  return (tiles_[0].numbers.capacity() + tiles_[1].numbers.capacity()) * sizeof(std::uint16_t);
}

const OpenTile::Tile* OpenTile::find(Position begin) const {
  for (const Tile& tile : tiles_)
    if (tile.begin == begin) return &tile;
  return nullptr;
}

OpenTile::Tile& OpenTile::place_for(Position begin, Position beside) {
  for (Tile& tile : tiles_) {
    if (tile.begin != begin) continue;
    if (begin != beside) tile.kept = 0;
    return tile;
  }
  Tile& tile = tiles_[tiles_[0].begin == beside ? 1 : 0];
  tile.begin = begin;
  tile.kept = 0;
  return tile;
}

void RemainderPlan::assign(const Batch& batch, const kernels::KvLayout& layout,
                           std::uint32_t layer_count) {
  stored_.clear();
  seen_.clear();
  kept_.clear();
  if (!kernels::keeps_remainders(layout)) return;
  const std::size_t width = std::size_t{layout.kv_head_count} * layout.value_columns;
  closed_.resize(batch.rows.size() * width);
  stored_.resize(batch.rows.size());
  seen_.resize(batch.rows.size() * kTileTokens);
  for (Rows rows; rows.begin < batch.rows.size(); rows.begin = rows.end) {
    const std::uint32_t sequence = batch.rows[rows.begin].sequence;
    while (rows.end < batch.rows.size() && batch.rows[rows.end].sequence == sequence) ++rows.end;
    OpenTile* open = batch.sequences[sequence].open_tile;
    CHECK(open != nullptr, "a sequence without an open tile");
    OpenTile::Tile& last = open->place_for(tile_of(batch.rows[rows.end - 1].position),
                                           tile_of(batch.rows[rows.begin].position));
    last.numbers.resize(layer_count * kTileTokens * width);
    place(batch, rows, last, width);
    show(batch, rows, *open, width);
  }
}

void RemainderPlan::place(const Batch& batch, Rows rows, OpenTile::Tile& last, std::size_t width) {
  Kept kept{&last, 0};
  for (std::size_t i = rows.begin; i < rows.end; ++i) {
    const Position position = batch.rows[i].position;
    if (tile_of(position) != last.begin) {
      stored_[i] = {closed_.data() + i * width, 0};
      continue;
    }
    // What the tile has of this row and those behind it was taken back.
    last.kept &= (1U << place_in_tile(position)) - 1;
    kept.rows |= 1U << place_in_tile(position);
    stored_[i] = {last.numbers.data() + place_in_tile(position) * width, kTileTokens * width};
  }
  kept_.push_back(kept);
}

void RemainderPlan::show(const Batch& batch, Rows rows, const OpenTile& open, std::size_t width) {
  std::array<RemainderRow, kTileTokens> own = {};
  Position begin = tile_of(batch.rows[rows.begin].position);
  if (const OpenTile::Tile* tile = open.find(begin); tile != nullptr) {
    for (std::size_t i = 0; i < place_in_tile(batch.rows[rows.begin].position); ++i) {
      if ((tile->kept >> i & 1U) == 0) continue;
      // Read only: no row of this batch goes there.
      own[i] = {const_cast<std::uint16_t*>(tile->numbers.data()) + i * width, kTileTokens * width};
    }
  }
  for (std::size_t i = rows.begin; i < rows.end; ++i) {
    const Position position = batch.rows[i].position;
    if (tile_of(position) != begin) {
      own = {};
      begin = tile_of(position);
    }
    own[place_in_tile(position)] = stored_[i];
    std::copy_n(own.begin(), place_in_tile(position) + 1,
                seen_.begin() + static_cast<std::ptrdiff_t>(i * kTileTokens));
  }
}

void RemainderPlan::keep() {
  for (const Kept& kept : kept_) kept.tile->kept |= kept.rows;
  kept_.clear();
}

}  // namespace refrain::model
