// CpuInterpreter: runs a CpuProgram on a WorkerTeam, step after step. A step of row operations is
// cut into pieces of rows, a step of products into pieces of panels, attention into its planned
// tasks; how it is cut changes no result. Engine thread; tasks on the team's threads write only
// their own rows or panels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "kernels/cpu_kernels.h"
#include "model/batch_plan.h"
#include "model/cpu_program.h"
#include "model/kv_arena.h"
#include "model/mass_sum.h"
#include "model/packed_weights.h"
#include "model/worker_team.h"

namespace refrain::model {

class CpuInterpreter {
 public:
  CpuInterpreter(const ModelShape& shape, KvArena& arena, const kernels::CpuKernels& kernels,
                 WorkerTeam& team, const PackedWeights& packed);

  // Takes memory for values and threads. kUnavailable.
  Result<void> reserve(std::size_t bytes);
  // Arranges and computes the program; `plan` is the batch it was recorded for. kUnavailable.
  Result<void> run(CpuProgram& program, const BatchPlan& plan);
  // What rows of the last run asked for.
  void take_looks(BatchOutput& output) {
    mass_.take(output);
    output.queries.swap(queries_);
  }

  std::uint64_t bytes() const { return memory_.bytes() + scratch_.bytes() + mass_.bytes(); }

 private:
  void run_rows(const CpuStep& step);
  void run_products(const CpuStep& step);
  void run_attention(const CpuOperation& operation);
  void copy_queries(const CpuOperation& operation);
  void run_row_operation(const CpuOperation& operation, std::uint32_t first, std::uint32_t last);
  void run_simple(const CpuOperation& operation, std::uint32_t row);
  void embed(const CpuOperation& operation, std::uint32_t row);
  void rotate(const CpuOperation& operation, std::uint32_t row);
  void quantize(const CpuOperation& operation, std::uint32_t first, std::uint32_t last);
  void store_kv(const CpuOperation& operation, std::uint32_t first, std::uint32_t last);
  void multiply(const CpuOperation& operation, std::uint32_t first_panel, std::uint32_t last_panel,
                std::byte* scratch);

  float* floats(ValueId id) const;
  float* row_of(ValueId id, std::size_t row) const;

  const ModelShape& shape_;
  KvArena& arena_;
  const kernels::CpuKernels& kernels_;
  WorkerTeam& team_;
  const PackedWeights& packed_;
  AlignedBuffer memory_;  // values
  ThreadScratch scratch_;
  MassSum mass_;
  std::vector<float> queries_;  // as BatchOutput has them

  // The run at hand.
  const CpuProgram* program_ = nullptr;
  const BatchPlan* plan_ = nullptr;
};

}  // namespace refrain::model
