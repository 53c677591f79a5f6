// Executor on our own kernels: joins the forward pass with CpuOperators. Engine thread.
#include <algorithm>

#include "base/check.h"
#include "kernels/cpu_kernels.h"
#include "kernels/paged_attention.h"
#include "model/batch_plan.h"
#include "model/core_count.h"
#include "model/executor.h"
#include "model/forward.h"
#include "model/ops_cpu.h"
#include "model/packed_weights.h"
#include "model/weights.h"
#include "model/worker_team.h"

namespace refrain::model {
namespace {

constexpr std::uint32_t kThreadCountMax = 64;  // more do not pay for models that fit a CPU

class CpuExecutor final : public Executor {
 public:
  CpuExecutor(const Model& model, KvArena& arena, const ExecutorOptions& options,
              const kernels::CpuKernels& kernels, std::unique_ptr<WorkerTeam> team,
              std::unique_ptr<PackedWeights> packed)
      : model_(model),
        arena_(arena),
        options_(options),
        team_(std::move(team)),
        packed_(std::move(packed)),
        operators_(model.shape(), model.weights(), arena, kernels, *team_, *packed_) {}

  // Takes the memory of the largest batch now, so that no later one can fail for want of it.
  Result<void> reserve() {
    const BatchPlan largest = BatchPlan::largest(options_.max_batch_rows);
    operators_.begin(largest);
    forward(model_.shape(), model_.weights(), operators_);
    return operators_.reserve();
  }

  Result<void> run(const Batch& batch, BatchOutput& output) override {
    CHECK(batch.rows.size() <= options_.max_batch_rows, "more rows than max_batch_rows");
    output.logits.clear();
    output.hidden.clear();
    if (batch.rows.empty()) return {};
    RETURN_IF_ERROR(
        plan_.assign(batch, model_.shape(), arena_.block_size(), team_->thread_count()));
    operators_.begin(plan_);
    forward(model_.shape(), model_.weights(), operators_);
    return operators_.run(output);
  }

  void copy_rows(const kv::BlockCopy& copy) override { arena_.copy_rows(copy); }

  // Products and row operations give the same bits on every instruction set; attention does not.
  std::string numerics() const override {
    return "cpu/1; " + kernels::attention_numerics(arena_.format());
  }

  std::uint32_t max_batch_rows() const override { return options_.max_batch_rows; }

  std::uint64_t scratch_bytes() const override { return operators_.scratch_bytes(); }

 private:
  const Model& model_;
  KvArena& arena_;
  const ExecutorOptions options_;
  std::unique_ptr<WorkerTeam> team_;
  std::unique_ptr<PackedWeights> packed_;
  CpuOperators operators_;
  BatchPlan plan_;
};

}  // namespace

Result<std::unique_ptr<Executor>> Executor::create_cpu(const Model& model, KvArena& arena,
                                                       const ExecutorOptions& options) {
  CHECK(options.max_batch_rows > 0, "max_batch_rows is 0");
  const std::uint32_t threads =
      std::clamp(options.thread_count == 0 ? physical_core_count() : options.thread_count, 1U,
                 kThreadCountMax);
  const kernels::InstructionSet set =
      options.instruction_set.value_or(kernels::best_instruction_set());
  ASSIGN_OR_RETURN(auto team, WorkerTeam::create(threads));
  ASSIGN_OR_RETURN(auto packed, PackedWeights::pack(model.weights(), *team, options.on_progress));
  auto made = std::make_unique<CpuExecutor>(model, arena, options, kernels::cpu_kernels(set),
                                            std::move(team), std::move(packed));
  RETURN_IF_ERROR(made->reserve());
  return std::unique_ptr<Executor>(std::move(made));
}

}  // namespace refrain::model
