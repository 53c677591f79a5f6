// Executor: runs one batch through the model, reading and writing K/V in the arena. The
// architecture (forward.h) is written once against the operator interface (ops.h); the executor
// joins it with a set of operators. What a row computes depends only on its own sequence and
// position, never on batch, chunk, cache history or thread count (DESIGN: exactness).
// Owned and called by the engine thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "kernels/cpu_kernels.h"
#include "model/batch.h"
#include "model/kv_arena.h"
#include "model/model.h"

namespace refrain::model {

struct ExecutorOptions {
  std::uint32_t thread_count = 0;      // 0 = physical cores
  std::uint32_t max_batch_rows = 512;  // upper bound of rows per run()
  // Of the CPU kernels; the best this processor has if not set. Results are the same bits.
  std::optional<kernels::InstructionSet> instruction_set = {};
  std::function<void(double)> on_progress = {};  // share of the weights packed, 0..1; may be empty
};

class Executor {
 public:
  // Our own kernels on packed weights (ops_cpu.h).
  static Result<std::unique_ptr<Executor>> create_cpu(const Model& model, KvArena& arena,
                                                      const ExecutorOptions& options);
  // The reference: plain ggml operators on its CPU back end, reference mode, no repacked buffers.
  static Result<std::unique_ptr<Executor>> create_ggml(const Model& model, KvArena& arena,
                                                       const ExecutorOptions& options);
  virtual ~Executor() = default;

  // Computes all rows. K/V rows are written to their slots before attention reads them.
  // kInternal if a back end fails; the arena rows of this batch are then undefined. kUnavailable if
  // there is no memory for attention mass, kUnsupported if these operators do not give it, or no
  // queries.
  virtual Result<void> run(const Batch& batch, BatchOutput& output) = 0;

  // Copies K/V rows [0, row_count) of block `from` to block `to` in all layers (copy on write).
  virtual void copy_rows(const kv::BlockCopy& copy) = 0;

  // Names the operators and numerics, e.g. "ggml-cpu-ref/2"; part of every cache key.
  virtual std::string numerics() const = 0;
  virtual std::uint32_t max_batch_rows() const = 0;
  virtual std::uint64_t scratch_bytes() const = 0;  // activations held now

  // How fast the executor's threads read the weights, or the first 256 MiB of them, when they do
  // nothing else: the best of a few passes, a tenth of a second together. 0 where the operators do
  // not hold the weights themselves. Not while run() runs.
  virtual double measure_read_bytes_per_s() { return 0; }
};

}  // namespace refrain::model
