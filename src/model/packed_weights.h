// PackedWeights: the matrices of a model in the form the CPU kernels read
// (kernels/packed_matrix.h), in one piece of memory. Packing streams through the mapped file and
// gives its pages back, so that memory stays near the file's size. Immutable after pack(); any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>

#include "base/page_memory.h"
#include "base/result.h"
#include "kernels/packed_matrix.h"
#include "model/ops.h"
#include "model/shape.h"
#include "model/weights.h"
#include "model/worker_team.h"

namespace refrain::model {

class PackedWeights {
 public:
  // kUnavailable without memory. `on_progress` (may be empty) gets the share done, 0..1.
  static Result<std::unique_ptr<PackedWeights>> pack(
      const Weights& weights, WorkerTeam& team, const std::function<void(double)>& on_progress);

  // The packed form of a matrix of the model.
  const kernels::PackedMatrix& of(Weight matrix) const;
  std::uint64_t bytes() const { return memory_.bytes(); }
  // All of them, aligned to pages.
  std::span<const std::byte> memory() const { return {memory_.data(), memory_.bytes()}; }

 private:
  PackedWeights() = default;
  PageMemory memory_;
  std::unordered_map<Weight, kernels::PackedMatrix> matrices_;
};

}  // namespace refrain::model
