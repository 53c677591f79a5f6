// CpuOperators: BatchOperators on our own kernels (kernels/). Records the operations of a batch as
// a CpuProgram and runs it on a WorkerTeam. Engine thread; tasks run on the team's threads and
// touch only their own rows or panels of a step.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "kernels/cpu_kernels.h"
#include "model/batch_operators.h"
#include "model/cpu_program.h"
#include "model/executor.h"
#include "model/kv_arena.h"
#include "model/packed_weights.h"
#include "model/rotary.h"
#include "model/worker_team.h"

namespace refrain::model {

class CpuInterpreter;  // runs a program

class CpuOperators final : public BatchOperators {
 public:
  // Packs the model's weights. kUnavailable without memory or threads.
  static Result<std::unique_ptr<CpuOperators>> create(const Model& model, KvArena& arena,
                                                      const ExecutorOptions& options);
  ~CpuOperators() override;

  void begin(const BatchPlan& plan) override;
  Result<void> reserve() override;
  Result<void> run(BatchOutput& output) override;
  std::uint32_t thread_count() const override { return team_->thread_count(); }
  std::uint64_t scratch_bytes() const override;
  double measure_read_bytes_per_s() override;
  std::string numerics() const override;

  Node embed(Weight table) override;
  Node scale(Node x, float factor) override;
  Node add(Node a, Node b) override;
  Node rms_norm(Node x, Weight weight, std::uint32_t dim, float epsilon) override;
  Node linear(Node x, Weight matrix, Weight bias) override;
  Node rope(Node x, std::uint32_t head_dim, const RopeSettings& settings, float base, bool scaled,
            Weight factors) override;
  void store_kv(std::uint32_t layer, Node key, Node value) override;
  Node attend(Node query, const AttentionSettings& settings) override;
  Node glu(Node a, Node b, Gate gate) override;
  bool wants_output() const override;
  Node select_output_rows(Node x) override;
  void output(Node hidden, Weight matrix, float soft_cap) override;

 private:
  CpuOperators(const Model& model, KvArena& arena, kernels::InstructionSet set,
               std::unique_ptr<WorkerTeam> team, std::unique_ptr<PackedWeights> packed);
  std::uint32_t batch_rows() const;
  ValueId record(CpuOperation operation, std::uint32_t rows, std::uint32_t dim);
  ValueId input_of(ValueId x, Weight matrix);
  ValueId gather(ValueId x, const std::int32_t* rows, std::size_t count);

  const ModelShape& shape_;
  const KvArena& arena_;
  const kernels::InstructionSet set_;
  const std::unique_ptr<WorkerTeam> team_;
  const std::unique_ptr<PackedWeights> packed_;
  const ModelRotary rotary_;
  std::unique_ptr<CpuInterpreter> interpreter_;

  // The batch being recorded.
  const BatchPlan* plan_ = nullptr;
  CpuProgram program_;
  std::array<ValueId, 2> angles_ = {kNoValue, kNoValue};  // of global and of local layers
  std::vector<std::int32_t> logit_rows_;
  ValueId hidden_ = kNoValue;  // [selected rows, embedding_dim]
  ValueId logits_ = kNoValue;
  std::vector<float> hidden_rows_;
};

}  // namespace refrain::model
