// Wraps the lifetime of ggml's back end, threads, graphs and their memory. Engine thread.
#include "model/ggml_graph.h"

#include <time.h>

#include "base/check.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

namespace refrain::model {
namespace {

// These times decide on the number of threads only, never on a result.
std::int64_t nanoseconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

Result<std::unique_ptr<GgmlBackend>> GgmlBackend::create(std::uint32_t thread_count) {
  CHECK(thread_count > 0 && thread_count <= GGML_MAX_N_THREADS, "thread count out of range");
  std::unique_ptr<GgmlBackend> made(new GgmlBackend(thread_count));
  made->backend_ = ggml_backend_cpu_init();
  ggml_threadpool_params params = ggml_threadpool_params_default(static_cast<int>(thread_count));
  params.poll = 0;  // sleep between graphs: an idle server uses no processor time
  made->threads_ = ggml_threadpool_new(&params);
  if (made->backend_ == nullptr || made->threads_ == nullptr) {
    return Error{Code::kUnavailable, "cannot start the compute threads"};
  }
  ggml_backend_cpu_set_threadpool(made->backend_, made->threads_);
  ggml_backend_cpu_set_use_ref(made->backend_, true);
  return made;
}

GgmlBackend::~GgmlBackend() {
  if (backend_ != nullptr) ggml_backend_free(backend_);
  if (threads_ != nullptr) ggml_threadpool_free(threads_);
}

Result<void> GgmlBackend::compute(ggml_cgraph* graph) {
  ggml_backend_cpu_set_n_threads(backend_, static_cast<int>(governor_.thread_count()));
  const std::int64_t wall_ns = nanoseconds_of(CLOCK_MONOTONIC);
  const std::int64_t cpu_ns = nanoseconds_of(CLOCK_PROCESS_CPUTIME_ID);
  const ggml_status status = ggml_backend_graph_compute(backend_, graph);
  governor_.record(nanoseconds_of(CLOCK_MONOTONIC) - wall_ns,
                   nanoseconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns);
  if (status == GGML_STATUS_SUCCESS) return {};
  return Error{Code::kInternal,
               std::string("the compute back end failed: ") + ggml_status_to_string(status)};
}

Result<std::unique_ptr<GgmlGraph>> GgmlGraph::create(std::size_t node_count_max) {
  std::unique_ptr<GgmlGraph> made(new GgmlGraph(node_count_max));
  const std::size_t bytes =
      ggml_tensor_overhead() * node_count_max + ggml_graph_overhead_custom(node_count_max, false);
  made->context_ = ggml_init({bytes, nullptr, true});
  made->memory_ = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
  if (made->context_ == nullptr || made->memory_ == nullptr) {
    return Error{Code::kUnavailable, "cannot get memory for the compute graph"};
  }
  made->clear();
  return made;
}

GgmlGraph::~GgmlGraph() {
  if (memory_ != nullptr) ggml_gallocr_free(memory_);
  ggml_free(context_);
}

void GgmlGraph::clear() {
  ggml_reset(context_);
  graph_ = ggml_new_graph_custom(context_, node_count_max_, false);
}

void GgmlGraph::add(ggml_tensor* result) {
  ggml_build_forward_expand(graph_, result);
}

Result<void> GgmlGraph::reserve() {
  if (ggml_gallocr_reserve(memory_, graph_)) return {};
  return Error{Code::kUnavailable, "cannot get memory for the activations",
               "lower the rows per step"};
}

Result<void> GgmlGraph::allocate() {
  if (ggml_gallocr_alloc_graph(memory_, graph_)) return {};
  return Error{Code::kInternal, "cannot get memory for the activations"};
}

std::uint64_t GgmlGraph::bytes() const {
  return ggml_gallocr_get_buffer_size(memory_, 0) + ggml_get_mem_size(context_);
}

std::string ggml_instruction_set() {
  if (ggml_cpu_has_avx512() != 0) {
    return ggml_cpu_has_avx512_vnni() != 0 ? "avx512-vnni" : "avx512";
  }
  if (ggml_cpu_has_avx2() != 0) return ggml_cpu_has_avx_vnni() != 0 ? "avx2-vnni" : "avx2";
  if (ggml_cpu_has_avx() != 0) return "avx";
  if (ggml_cpu_has_sve() != 0) return "sve";
  if (ggml_cpu_has_matmul_int8() != 0) return "neon-i8mm";
  if (ggml_cpu_has_dotprod() != 0) return "neon-dotprod";
  return ggml_cpu_has_neon() != 0 ? "neon" : "generic";
}

}  // namespace refrain::model
