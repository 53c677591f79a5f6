// Checks a batch and flattens it. Engine thread.
#include "model/batch_plan.h"

#include "base/check.h"
#include "model/head_view.h"

namespace refrain::model {
namespace {

// Rows of one sequence are adjacent and ascend up to the sequence's last token, each in the slot
// its block table says.
void check_batch([[maybe_unused]] const Batch& batch, [[maybe_unused]] std::uint32_t block_size) {
#ifndef NDEBUG
  std::vector<bool> seen(batch.sequences.size(), false);
  for (std::size_t i = 0; i < batch.rows.size(); ++i) {
    const BatchRow& row = batch.rows[i];
    DCHECK(row.sequence < batch.sequences.size(), "row of an unknown sequence");
    const BatchSequence& sequence = batch.sequences[row.sequence];
    DCHECK(sequence.table != nullptr, "sequence without a block table");
    DCHECK(row.position >= 0 && static_cast<std::uint32_t>(row.position) < sequence.length,
           "row beyond the end of its sequence");
    DCHECK(sequence.dropped <= static_cast<std::uint32_t>(row.position), "a row that was dropped");
    DCHECK(sequence.table->size() * block_size >= sequence.rows(), "block table too short");
    DCHECK(
        row.slot == kv::slot_of(*sequence.table,
                                row.position - static_cast<Position>(sequence.dropped), block_size),
        "row's slot is not where its block table says");
    const bool continues = i > 0 && batch.rows[i - 1].sequence == row.sequence;
    DCHECK(continues || !seen[row.sequence], "rows of a sequence are not adjacent");
    DCHECK(!continues || batch.rows[i - 1].position < row.position, "positions do not ascend");
    const bool last = i + 1 == batch.rows.size() || batch.rows[i + 1].sequence != row.sequence;
    DCHECK(!last || static_cast<std::uint32_t>(row.position) + 1 == sequence.length,
           "rows do not reach the end of their sequence");
    seen[row.sequence] = true;
  }
#endif
}

}  // namespace

Result<void> BatchPlan::assign(const Batch& batch, const ModelShape& shape, const KvArena& arena,
                               std::uint32_t thread_count) {
  check_batch(batch, arena.block_size());
  tokens.clear();
  positions.clear();
  keys.clear();
  slots.clear();
  selected.clear();
  logit_rows.clear();
  hidden_rows.clear();
  mass_rows.clear();
  mass_weights.clear();
  query_rows.clear();
  first_mass_layer = batch.first_mass_layer;
  mass_kind = batch.mass_kind;
  sequences.clear();
  sequence_ids.clear();
  lengths.clear();
  for (std::size_t i = 0; i < batch.rows.size(); ++i) {
    const BatchRow& row = batch.rows[i];
    const std::int32_t token = to_int(row.token);
    if (token < 0 || static_cast<std::uint32_t>(token) >= shape.vocabulary_size) {
      return Error{Code::kInternal, "token " + std::to_string(token) + " is not in the vocabulary"};
    }
    tokens.push_back(token);
    positions.push_back(row.position);
    keys.push_back(row.position - static_cast<Position>(batch.sequences[row.sequence].dropped));
    slots.push_back(static_cast<std::int64_t>(row.slot));
    const auto index = static_cast<std::uint32_t>(selected.size());
    if (row.wants_logits) logit_rows.push_back(index);
    if (row.wants_hidden) hidden_rows.push_back(index);
    CHECK(!row.wants_mass || batch.sequences[row.sequence].view == nullptr,
          "attention mass of heads that do not see the same rows");
    if (row.wants_mass) {
      mass_rows.push_back(static_cast<std::uint32_t>(i));
      mass_weights.push_back(row.mass_weight);
    }
    if (row.wants_queries) query_rows.push_back(static_cast<std::uint32_t>(i));
    if (row.wants_logits || row.wants_hidden) selected.push_back(static_cast<std::int32_t>(i));
    if (i == 0 || batch.rows[i - 1].sequence != row.sequence) {
      const BatchSequence& sequence = batch.sequences[row.sequence];
      sequences.push_back({.blocks = sequence.table->data(),
                           .first_row = static_cast<std::uint32_t>(i),
                           .view = sequence.view == nullptr ? nullptr : &sequence.view->seen()});
      sequence_ids.push_back(row.sequence);
      lengths.push_back(sequence.rows());
    }
    ++sequences.back().row_count;
  }
  const kernels::AttentionShape attention_shape{
      shape.head_count, shape.kv_head_count, shape.key_dim, shape.value_dim, shape.attention_scale};
  kernels::plan_attention(sequences, keys.data(), attention_shape, thread_count, attention);
  remainders.assign(batch, arena.layout(), shape.layer_count);
  return {};
}

BatchPlan BatchPlan::largest(std::uint32_t row_count) {
  BatchPlan plan;
  plan.tokens.resize(row_count);
  plan.positions.resize(row_count);
  plan.keys.resize(row_count);
  plan.slots.resize(row_count);
  for (std::uint32_t i = 0; i < row_count; ++i) {
    plan.selected.push_back(static_cast<std::int32_t>(i));
    plan.logit_rows.push_back(i);
  }
  return plan;
}

}  // namespace refrain::model
