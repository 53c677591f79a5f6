// Splice: moves stored K/V rows to other slots and other positions of a prompt. Keys are turned
// once, in FP32, by the distance they move, with their layer's own frequencies and over its rotary
// dimensions alone; values are copied. A distance of 0 is a plain copy, bit for bit. Take rows from
// the place they were computed in, never from a moved copy: each turn rounds them once more.
// Engine thread.
//
//   source blocks   | . . a b c d e | f g h . . . . |      positions 100 .. 107, say
//   target blocks   | . . . . . . . | . a b c d e f | g h . . . . . . |      positions 41 .. 48
//   moves             {a..e, -59} -> 41, {f} -> 46, {g h} -> 47
//
// Layer 0 is then right up to rounding; deeper rows still hold what their old left context gave.
// All layers move, those of sliding windows too: a block is whole wherever it is used later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/ids.h"
#include "base/result.h"
#include "kernels/cpu_kernels.h"
#include "kv/block_table.h"
#include "kv/ledger.h"
#include "model/kv_arena.h"
#include "model/model.h"
#include "model/rotary.h"

namespace refrain::model {

// Rows [from, from + row_count) of slots to [to, ...), each side within one block.
struct RowMove {
  kv::Slot from = 0;
  kv::Slot to = 0;
  std::uint32_t row_count = 0;
  Position distance = 0;  // target position - position the rows were computed at
};

// Cuts a run at the borders of its blocks, on both sides, and appends the pieces to `moves`. `to`:
// the blocks of the sequence that it goes to.
void append_moves(const kv::SegmentRun& run, const kv::BlockTable& to, std::uint32_t block_size,
                  std::vector<RowMove>& moves);

class Splice {
 public:
  // `model` and `arena` outlive it. `set`: as ExecutorOptions has it; the bytes are the same.
  // kUnavailable without memory for a tile.
  static Result<std::unique_ptr<Splice>> create(const Model& model, KvArena& arena,
                                                std::optional<kernels::InstructionSet> set = {});

  // Target slots are no source of the same call.
  void move(std::span<const RowMove> moves);
  // Runs of a plan to the blocks of the sequence that they go to.
  void move(std::span<const kv::SegmentRun> runs, const kv::BlockTable& to);

 private:
  Splice(const Model& model, KvArena& arena, kernels::InstructionSet set);
  void move_alike(std::span<const RowMove> moves);
  void set_angles(Position distance);

  const ModelShape& shape_;
  KvArena& arena_;
  const ModelRotary rotary_;
  AlignedBuffer memory_;                             // a tile, and what the kernel needs
  kernels::KeyTurn turn_;                            // rotation aside
  std::vector<float> global_angles_, local_angles_;  // cosines, then sines
};

}  // namespace refrain::model
