// Paged attention: for rows of several sequences at once, reads float16 keys and values straight
// from the arena through the block tables; nothing is gathered. Plain functions on memory the
// caller owns; tasks may run on any thread, each with a scratch of its own.
//
// What a row computes depends only on its own sequence and position: keys are cut into splits of
// kSplitKeys counted from position 0, each split is reduced from scratch in FP32 in one fixed
// order, and the splits are merged in ascending order (the online softmax of Milakov and
// Gimelshein 2018, with fixed borders). Chunking, batch mates, thread count and block size change
// no bit; the instruction set does, so attention_variant() is part of every cache key.
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

namespace refrain::kernels {

inline constexpr std::uint32_t kSplitKeys = 256;

struct AttentionSequence {
  const BlockId* blocks = nullptr;  // the block table
  std::uint32_t first_row = 0;      // rows of this sequence in the batch: adjacent,
  std::uint32_t row_count = 0;      // positions ascending
};

// A piece of work: some rows of one sequence, all query heads of one KV head.
struct AttentionTask {
  std::uint32_t sequence = 0;
  std::uint32_t kv_head = 0;
  std::uint32_t first_row = 0;
  std::uint32_t row_count = 0;
};

struct AttentionShape {
  std::uint32_t head_count = 0;  // query heads; a multiple of kv_head_count
  std::uint32_t kv_head_count = 0;
  std::uint32_t key_dim = 0;    // per head
  std::uint32_t value_dim = 0;  // per head
  float scale = 1.0F;
  std::uint32_t window = 0;  // sees keys in (position - window, position]; 0 = all
};

struct AttentionCall {
  AttentionShape shape;
  const float* query = nullptr;           // [rows][head_count][key_dim]
  float* output = nullptr;                // [rows][head_count][value_dim]
  const std::uint16_t* keys = nullptr;    // float16 [slots][kv_head_count][key_dim]
  const std::uint16_t* values = nullptr;  // float16 [slots][kv_head_count][value_dim]
  const Position* positions = nullptr;    // [rows]
  const AttentionSequence* sequences = nullptr;
  std::uint32_t block_size = 0;
};

// Cuts the rows of a batch into tasks, the most expensive first. The cut changes no result.
void plan_attention(std::span<const AttentionSequence> sequences, const Position* positions,
                    const AttentionShape& shape, std::vector<AttentionTask>& tasks);

// Floats of scratch that run_attention() needs for any task planned with this shape.
std::size_t attention_scratch_floats(const AttentionShape& shape);

// Computes the output rows of one task. `scratch` is aligned to 64 bytes.
void run_attention(const AttentionCall& call, const AttentionTask& task, float* scratch);

// The instruction set in use: "avx512", "avx2" or "portable".
const char* attention_variant();

}  // namespace refrain::kernels
