// BatchPlan: a Batch turned into the flat arrays that operators read. Rebuilt for each step, its
// memory is reused. Engine thread.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "kernels/paged_attention.h"
#include "model/batch.h"
#include "model/kv_arena.h"
#include "model/open_tile.h"
#include "model/shape.h"

namespace refrain::model {

struct BatchPlan {
  std::vector<std::int32_t> tokens;        // [rows]
  std::vector<Position> positions;         // [rows]
  std::vector<Position> keys;              // [rows] their place among the keys of their sequence
  std::vector<std::int64_t> slots;         // [rows]
  std::vector<std::int32_t> selected;      // rows that want logits or hidden state, ascending
  std::vector<std::uint32_t> logit_rows;   // indices into `selected`
  std::vector<std::uint32_t> hidden_rows;  // indices into `selected`
  std::vector<std::uint32_t> mass_rows;    // rows that want attention mass, ascending
  std::vector<float> mass_weights;         // of those
  std::vector<std::uint32_t> query_rows;   // rows whose queries are wanted, ascending
  std::uint32_t first_mass_layer = 0;
  MassKind mass_kind = MassKind::kSum;
  std::vector<kernels::AttentionSequence> sequences;
  std::vector<std::uint32_t> sequence_ids;  // [sequences] indices into Batch::sequences
  std::vector<std::uint32_t> lengths;       // [sequences] keys visible after the step
  kernels::AttentionPlan attention;
  RemainderPlan remainders;

  // kInternal if a token is not in the vocabulary (the engine checks requests; operators would
  // abort). Everything else that is wrong with a batch is our own bug.
  // Attention is cut into tasks for `thread_count` threads.
  Result<void> assign(const Batch& batch, const ModelShape& shape, const KvArena& arena,
                      std::uint32_t thread_count);
  // A plan of this many rows that all want logits, to measure memory with.
  static BatchPlan largest(std::uint32_t row_count);
};

}  // namespace refrain::model
