// GgmlOperators: BatchOperators on plain ggml operators. Records one ggml graph for a batch and
// computes it on ggml's CPU back end in reference mode: no repacked weights, no fusion, and every
// product is one dot product per output, so that a row's result does not depend on its neighbours.
// Attention is our own kernel (kernels/paged_attention.h) as a node of the graph. Engine thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "kernels/cpu_kernels.h"
#include "model/batch_operators.h"
#include "model/kv_arena.h"

struct ggml_cgraph;
struct ggml_context;

namespace refrain::model {

class GgmlBackend;  // back end and its threads
class GgmlGraph;    // a recorded graph and the memory of its values

class GgmlOperators final : public BatchOperators {
 public:
  // kUnavailable without memory or threads.
  static Result<std::unique_ptr<GgmlOperators>> create(const ModelShape& shape, KvArena& arena,
                                                       std::uint32_t thread_count);
  ~GgmlOperators() override;

  void begin(const BatchPlan& plan) override;
  Result<void> reserve() override;
  Result<void> run(BatchOutput& output) override;
  std::uint32_t thread_count() const override { return thread_count_; }
  std::uint64_t scratch_bytes() const override;
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
  struct AttentionNode;  // what the nodes of one layer's attention need when they run
  GgmlOperators(const ModelShape& shape, KvArena& arena, std::uint32_t thread_count);
  static void compute_store(ggml_tensor* result, int thread, int thread_count, void* node);
  static void compute_attention(ggml_tensor* result, int thread, int thread_count, void* node);
  ggml_tensor* new_input(int type, std::int64_t count);
  void fill_inputs();
  void collect_hidden(BatchOutput& output) const;
  Result<void> compute_logits(BatchOutput& output);

  const ModelShape& shape_;
  KvArena& arena_;
  const kernels::CpuKernels& kernels_;  // of attention
  const std::uint32_t thread_count_;
  std::unique_ptr<GgmlBackend> backend_;
  std::unique_ptr<GgmlGraph> layers_graph_;
  std::unique_ptr<GgmlGraph> logits_graph_;  // a few rows at a time: vocabularies are large
  std::unique_ptr<AttentionNode[]> attention_nodes_;  // one per layer
  ThreadScratch attention_scratch_;

  // The graph being recorded.
  const BatchPlan* plan_ = nullptr;
  ggml_tensor* tokens_ = nullptr;
  ggml_tensor* positions_ = nullptr;
  ggml_tensor* selected_ = nullptr;
  ggml_tensor* hidden_ = nullptr;  // [embedding_dim, selected rows]
  Weight output_matrix_ = nullptr;
  float soft_cap_ = 0.0F;
};

}  // namespace refrain::model
