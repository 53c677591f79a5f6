// Remainders (kernels/kv_layout.h) between and during batches, for layouts that keep them. Nothing
// here costs anything for the others. Engine thread; while a batch runs its threads write and read
// the rows that a RemainderPlan names.
//
//   batch 1   rows 27 28 29 30 31 | 32 33 34       of the last tile: kept in the OpenTile
//   batch 2   rows                         35 36   see those of 32 to 34 there, the others as
//   stored
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "kernels/kv_layout.h"
#include "kernels/kv_rows.h"

namespace refrain::model {

struct Batch;

// The remainders of the tile that a sequence is writing, float16 [layers][kTileTokens][kv heads]
// [value_columns]: 2 bytes for each number of 16 values. Owned by whoever owns the sequence, beside
// its block table, from its first batch to its last.
//
// Rows may be taken back after they were computed (a rejected draft, a step that failed), also
// those that ended in another tile. So the tile in which a batch begins stays until the next one.
class OpenTile {
 public:
  // Bytes held now.
  std::uint64_t bytes() const;

 private:
  friend class RemainderPlan;
  struct Tile {
    Position begin = -1;
    std::uint32_t kept = 0;  // bit i: of row begin + i
    std::vector<std::uint16_t> numbers;
  };
  // The tile at `begin`, emptied unless a batch goes on in it; never in the place of that at
  // `beside`.
  Tile& place_for(Position begin, Position beside);
  const Tile* find(Position begin) const;

  std::array<Tile, 2> tiles_;
};

// Where the remainders of a batch's rows go and which of them each row sees. Its memory is reused.
class RemainderPlan {
 public:
  // CHECKs that each sequence has an open tile if the layout keeps remainders.
  void assign(const Batch& batch, const kernels::KvLayout& layout, std::uint32_t layer_count);
  // The batch was computed: its rows are kept for the next one.
  void keep();

  const kernels::RemainderRow* stored() const { return stored_.data(); }  // [rows]
  const kernels::RemainderRow* seen() const { return seen_.data(); }      // [rows][kTileTokens]

 private:
  struct Rows {  // of one sequence: [begin, end) of the batch
    std::size_t begin = 0, end = 0;
  };
  struct Kept {
    OpenTile::Tile* tile = nullptr;
    std::uint32_t rows = 0;  // as OpenTile::Tile::kept
  };
  void place(const Batch& batch, Rows rows, OpenTile::Tile& last, std::size_t width);
  void show(const Batch& batch, Rows rows, const OpenTile& open, std::size_t width);

  std::vector<std::uint16_t> closed_;  // of rows in front of the last tile, one layer after another
  std::vector<kernels::RemainderRow> stored_, seen_;
  std::vector<Kept> kept_;
};

}  // namespace refrain::model
