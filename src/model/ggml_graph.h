// GgmlBackend: ggml's CPU back end with threads that persist between graphs and sleep when idle.
// GgmlGraph: a graph recorded anew for each batch, with the memory of its values reused.
// For ops_ggml only. Engine thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "model/thread_governor.h"

struct ggml_backend;
struct ggml_cgraph;
struct ggml_context;
struct ggml_gallocr;
struct ggml_tensor;
struct ggml_threadpool;

namespace refrain::model {

class GgmlBackend {
 public:
  static Result<std::unique_ptr<GgmlBackend>> create(std::uint32_t thread_count);
  ~GgmlBackend();
  Result<void> compute(ggml_cgraph* graph);

 private:
  explicit GgmlBackend(std::uint32_t thread_count) : governor_(thread_count) {}
  ggml_backend* backend_ = nullptr;
  ggml_threadpool* threads_ = nullptr;
  ThreadGovernor governor_;
};

class GgmlGraph {
 public:
  static Result<std::unique_ptr<GgmlGraph>> create(std::size_t node_count_max);
  ~GgmlGraph();

  void clear();                   // forgets the recorded graph
  void add(ggml_tensor* result);  // records all that `result` depends on
  Result<void> reserve();         // kUnavailable
  Result<void> allocate();        // gives every value its memory
  ggml_context* context() { return context_; }
  ggml_cgraph* graph() { return graph_; }
  std::uint64_t bytes() const;

 private:
  explicit GgmlGraph(std::size_t node_count_max) : node_count_max_(node_count_max) {}
  std::size_t node_count_max_;
  ggml_context* context_ = nullptr;  // headers of the graph's tensors
  ggml_cgraph* graph_ = nullptr;
  ggml_gallocr* memory_ = nullptr;
};

// Instruction sets this ggml was built for, as part of the numerics' name: "avx512-vnni".
std::string ggml_instruction_set();

}  // namespace refrain::model
