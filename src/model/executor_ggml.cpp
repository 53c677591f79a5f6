// Executor on plain ggml operators: joins the forward pass with GgmlOperators. Engine thread.
#include <algorithm>

#include "base/check.h"
#include "kernels/paged_attention.h"
#include "model/batch_plan.h"
#include "model/core_count.h"
#include "model/executor.h"
#include "model/forward.h"
#include "model/ggml_graph.h"
#include "model/ops_ggml.h"
#include "model/weights.h"

namespace refrain::model {
namespace {

constexpr std::uint32_t kThreadCountMax = 64;  // more do not pay for models that fit a CPU

class GgmlExecutor final : public Executor {
 public:
  GgmlExecutor(const Model& model, KvArena& arena, const ExecutorOptions& options,
               std::unique_ptr<GgmlOperators> operators)
      : model_(model), arena_(arena), options_(options), operators_(std::move(operators)) {}

  // Takes the memory of the largest batch now, so that no later one can fail for want of it.
  Result<void> reserve() {
    const BatchPlan largest = BatchPlan::largest(options_.max_batch_rows);
    operators_->begin(largest);
    forward(model_.shape(), model_.weights(), *operators_);
    return operators_->reserve();
  }

  Result<void> run(const Batch& batch, BatchOutput& output) override {
    CHECK(batch.rows.size() <= options_.max_batch_rows, "more rows than max_batch_rows");
    output.logits.clear();
    output.hidden.clear();
    if (batch.rows.empty()) return {};
    RETURN_IF_ERROR(
        plan_.assign(batch, model_.shape(), arena_.block_size(), operators_->thread_count()));
    operators_->begin(plan_);
    forward(model_.shape(), model_.weights(), *operators_);
    return operators_->run(output);
  }

  void copy_rows(const kv::BlockCopy& copy) override { arena_.copy_rows(copy); }

  std::string numerics() const override {
    return "ggml-cpu-ref/2 " + ggml_instruction_set() + "; " +
           kernels::attention_numerics(arena_.format());
  }

  std::uint32_t max_batch_rows() const override { return options_.max_batch_rows; }

  std::uint64_t scratch_bytes() const override { return operators_->scratch_bytes(); }

 private:
  const Model& model_;
  KvArena& arena_;
  const ExecutorOptions options_;
  std::unique_ptr<GgmlOperators> operators_;
  BatchPlan plan_;
};

}  // namespace

Result<std::unique_ptr<Executor>> Executor::create_ggml(const Model& model, KvArena& arena,
                                                        const ExecutorOptions& options) {
  CHECK(options.max_batch_rows > 0, "max_batch_rows is 0");
  const std::uint32_t threads =
      std::clamp(options.thread_count == 0 ? physical_core_count() : options.thread_count, 1U,
                 kThreadCountMax);
  ASSIGN_OR_RETURN(auto operators, GgmlOperators::create(model.shape(), arena, threads));
  auto made = std::make_unique<GgmlExecutor>(model, arena, options, std::move(operators));
  RETURN_IF_ERROR(made->reserve());
  return std::unique_ptr<Executor>(std::move(made));
}

}  // namespace refrain::model
