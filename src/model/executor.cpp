// The executor: the forward pass written to operators that record a batch. Engine thread.
#include "model/executor.h"

#include "base/check.h"
#include "model/batch_plan.h"
#include "model/core_count.h"
#include "model/forward.h"
#include "model/ops_cpu.h"
#include "model/ops_ggml.h"

namespace refrain::model {
namespace {

class ForwardExecutor final : public Executor {
 public:
  ForwardExecutor(const Model& model, KvArena& arena, std::uint32_t max_batch_rows,
                  std::unique_ptr<BatchOperators> operators)
      : model_(model),
        arena_(arena),
        max_batch_rows_(max_batch_rows),
        operators_(std::move(operators)) {}

  // Takes the memory of the largest batch now, so that no later one can fail for want of it.
  Result<void> reserve() {
    const BatchPlan largest = BatchPlan::largest(max_batch_rows_);
    record(largest);
    return operators_->reserve();
  }

  Result<void> run(const Batch& batch, BatchOutput& output) override {
    CHECK(batch.rows.size() <= max_batch_rows_, "more rows than max_batch_rows");
    output.logits.clear();
    output.hidden.clear();
    output.mass.clear();
    output.queries.clear();
    if (batch.rows.empty()) return {};
    RETURN_IF_ERROR(plan_.assign(batch, model_.shape(), arena_, operators_->thread_count()));
    record(plan_);
    RETURN_IF_ERROR(operators_->run(output));
    plan_.remainders.keep();
    return {};
  }

  void copy_rows(const kv::BlockCopy& copy) override { arena_.copy_rows(copy); }
  std::string numerics() const override { return operators_->numerics(); }
  std::uint32_t max_batch_rows() const override { return max_batch_rows_; }
  std::uint64_t scratch_bytes() const override { return operators_->scratch_bytes(); }
  double measure_read_bytes_per_s() override { return operators_->measure_read_bytes_per_s(); }

 private:
  void record(const BatchPlan& plan) {
    operators_->begin(plan);
    forward(model_.shape(), model_.weights(), *operators_);
  }

  const Model& model_;
  KvArena& arena_;
  const std::uint32_t max_batch_rows_;
  std::unique_ptr<BatchOperators> operators_;
  BatchPlan plan_;
};

Result<std::unique_ptr<Executor>> make_executor(const Model& model, KvArena& arena,
                                                const ExecutorOptions& options,
                                                std::unique_ptr<BatchOperators> operators) {
  CHECK(options.max_batch_rows > 0, "max_batch_rows is 0");
  auto made =
      std::make_unique<ForwardExecutor>(model, arena, options.max_batch_rows, std::move(operators));
  RETURN_IF_ERROR(made->reserve());
  return std::unique_ptr<Executor>(std::move(made));
}

}  // namespace

Result<std::unique_ptr<Executor>> Executor::create_cpu(const Model& model, KvArena& arena,
                                                       const ExecutorOptions& options) {
  ASSIGN_OR_RETURN(auto operators, CpuOperators::create(model, arena, options));
  return make_executor(model, arena, options, std::move(operators));
}

Result<std::unique_ptr<Executor>> Executor::create_ggml(const Model& model, KvArena& arena,
                                                        const ExecutorOptions& options) {
  ASSIGN_OR_RETURN(
      auto operators,
      GgmlOperators::create(model.shape(), arena, compute_thread_count(options.thread_count)));
  return make_executor(model, arena, options, std::move(operators));
}

}  // namespace refrain::model
