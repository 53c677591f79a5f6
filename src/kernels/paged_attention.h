// Paged attention: for rows of several sequences at once, reads keys and values in their stored
// form (kv_layout.h) straight from the arena through the block tables; nothing is gathered. Plain
// functions on memory the caller owns; tasks may run on any thread, each with a scratch of its own.
//
// What a row computes depends only on its own sequence and position: keys are cut into splits of
// kSplitKeys counted from position 0, each split is reduced from scratch in one fixed order, and
// the splits are merged in ascending order (the online softmax of Milakov and Gimelshein 2018, with
// fixed borders). Chunking, batch mates, thread count and block size change no bit, nor does it
// whether one thread reduces all splits of a row or several share them. Instruction sets give the
// same bits, except for float16 on processors without fused multiply-add; so attention_numerics()
// is part of every cache key.
//
//   keys        0 ........ 255 | 256 ....... 511 | 512 .. position
//   reduced      split 0       |  split 1        |  split 2, up to the row's own key
//   window               lowest key ......................^
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "kernels/kv_layout.h"
#include "kernels/kv_rows.h"

namespace refrain::kernels {

inline constexpr std::uint32_t kSplitKeys = 256;
// Changes when the bits of a result do.
inline constexpr std::uint32_t kAttentionVersion = 4;
inline constexpr std::uint32_t kRemainderAttentionVersion = 5;  // of layouts that keep remainders

// Where the keys and values of a tile lie, in bytes from the arena's beginning.
struct TilePlace {
  std::uint64_t keys = 0;
  std::uint64_t values = 0;
};

// A sequence whose heads do not all see the same rows of its table:
//
//   table           [ front | begin ....... end | behind ]   from begin to end: seen by no head
//   keys of a head  [ front | its own tiles | behind ]       more or fewer, wherever they lie
//
// Rows of the table are counted as ever, and all behind `end` are seen.
struct AttentionView {
  struct Head {
    const TilePlace* tiles = nullptr;
    std::uint32_t tile_count = 0;
  };
  std::uint32_t begin = 0;  // rows, whole tiles
  std::uint32_t end = 0;
  std::uint32_t most_tiles = 0;  // of all heads
  const Head* heads = nullptr;   // [layers][kv_head_count]
};

struct AttentionSequence {
  const BlockId* blocks = nullptr;      // the block table
  std::uint32_t first_row = 0;          // rows of this sequence in the batch: adjacent,
  std::uint32_t row_count = 0;          // positions ascending
  const AttentionView* view = nullptr;  // null: all heads see all of the table
};

struct AttentionShape {
  std::uint32_t head_count = 0;  // query heads; a multiple of kv_head_count
  std::uint32_t kv_head_count = 0;
  std::uint32_t key_dim = 0;    // per head
  std::uint32_t value_dim = 0;  // per head
  float scale = 1.0F;
  std::uint32_t window = 0;  // sees keys in (position - window, position]; 0 = all
  float soft_cap = 0.0F;     // scores become soft_cap * tanh(score / soft_cap); 0 = none
};

// A piece of work: some rows of one sequence, all query heads of one KV head, some of their splits.
struct AttentionTask {
  std::uint32_t sequence = 0;
  std::uint32_t kv_head = 0;
  std::uint32_t first_row = 0;
  std::uint32_t row_count = 0;
  std::uint32_t first_split = 0;
  std::uint32_t end_split = 0;
  std::uint32_t share = 0;  // of the plan's shares; kNoShare: this task has all splits of its rows
};
inline constexpr std::uint32_t kNoShare = UINT32_MAX;

// Tasks that share the splits of the same rows: each writes what its splits give to `partials`,
// and the last one to end merges them.
struct AttentionShare {
  std::size_t partials_at = 0;  // floats
  std::uint32_t task_count = 0;
};

// The tasks of a batch, the same for all its layers. While tasks run, `partials` and `pending` are
// written by the threads that run them; they are ready for the next layer when all tasks are done.
struct AttentionPlan {
  std::vector<AttentionTask> tasks;  // the most expensive first
  std::vector<AttentionShare> shares;
  mutable std::vector<float> partials;
  mutable std::vector<std::uint32_t> pending;  // [shares], tasks yet to end
};

struct AttentionCall {
  AttentionShape shape;
  KvLayout layout;
  const std::byte* kv = nullptr;     // this layer's keys and values
  const std::byte* arena = nullptr;  // those of all layers, for sequences with a view
  std::uint32_t layer = 0;
  const float* query = nullptr;         // [rows][head_count][key_dim]
  float* output = nullptr;              // [rows][head_count][value_dim]
  const Position* positions = nullptr;  // [rows]
  const AttentionSequence* sequences = nullptr;
  std::uint32_t block_size = 0;
  // Where the layout keeps remainders: those of the keys of each row's own tile, up to the row
  // itself; a row whose `at` is null is seen as it is stored.
  const RemainderRow* remainders = nullptr;  // [rows][kTileTokens]
  // Attention mass: for rows whose pointer is not null, [kv_head_count][mass_stride] floats that
  // receive, for keys 0 to the row's own, the sum of the softmax weights of the KV head's query
  // heads. The output does not change by it. `mass` itself may be null.
  float* const* mass = nullptr;  // [rows]
  std::size_t mass_stride = 0;
};

// Cuts the rows of a batch into tasks for `thread_count` threads. The cut changes no result.
void plan_attention(std::span<const AttentionSequence> sequences, const Position* positions,
                    const AttentionShape& shape, std::uint32_t thread_count, AttentionPlan& plan);

// Floats of scratch that a kernel needs for any task planned with this shape.
std::size_t attention_scratch_floats(const AttentionShape& shape);

// Computes one task of the plan. `scratch` is aligned to 64 bytes. CpuKernels has the kernels.
using AttentionKernel = void(const AttentionCall& call, const AttentionPlan& plan,
                             const AttentionTask& task, float* scratch);

}  // namespace refrain::kernels
