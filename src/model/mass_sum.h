// MassSum: collects the attention mass that rows of a batch ask for, layer after layer. The kernels
// write each row's mass for itself, on any thread; the sums over rows and heads are made between
// layers, in the order of the rows, so that thread counts change nothing. Engine thread.
//
//   begin(plan) -> per layer { rows() into the kernel's call, run, add_layer(layer) } ->
//   take(output)
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "model/batch.h"
#include "model/batch_plan.h"
#include "model/shape.h"

namespace refrain::model {

class MassSum {
 public:
  // `shape` outlives it.
  explicit MassSum(const ModelShape& shape) : shape_(shape) {}

  // Makes room; `plan` stays as it is until take(). kUnavailable.
  Result<void> begin(const BatchPlan& plan);
  bool wanted(std::uint32_t layer) const {
    return !rows_.empty() && layer >= plan_->first_mass_layer;
  }

  // For AttentionCall: [rows] of the batch, null where no mass is wanted; and its stride.
  float* const* rows() const { return rows_.data(); }
  std::size_t stride() const { return stride_; }

  // Adds what the kernels wrote for this layer.
  void add_layer(std::uint32_t layer);
  // Moves the sums to the output.
  void take(BatchOutput& output) { output.mass.swap(sums_); }

  std::uint64_t bytes() const { return memory_.bytes(); }

 private:
  std::size_t heads_of_sum() const {
    return plan_->mass_kind == MassKind::kSum ? 1 : shape_.kv_head_count;
  }

  const ModelShape& shape_;
  const BatchPlan* plan_ = nullptr;
  AlignedBuffer memory_;  // [mass rows][kv_head_count][stride_] of the layer at hand
  std::size_t stride_ = 0;
  std::vector<float*> rows_;
  std::vector<float> weights_;  // of the same rows
  std::vector<AttentionMass> sums_;
};

}  // namespace refrain::model
