// Products by ggml, on memory of ours. See ggml_product.h.
#include "model/ggml_product.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/rng.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "model/weight_types.h"

namespace refrain::model {
namespace {

constexpr std::uint32_t kRandomRows = 64;

ggml_type type_of(kernels::WeightType type) {
  return static_cast<ggml_type>(ggml_type_of(type));
}

}  // namespace

std::vector<std::byte> random_file_matrix(kernels::WeightType type, std::uint32_t rows,
                                          std::uint32_t columns) {
  const ggml_type theirs = type_of(type);
  const std::size_t row_bytes = ggml_row_size(theirs, columns);
  const std::uint32_t made = std::min(rows, kRandomRows);
  Rng rng(1);
  std::vector<float> values(std::size_t{made} * columns);
  for (float& value : values) value = static_cast<float>(rng.uniform() * 2.0 - 1.0);
  std::vector<std::byte> matrix(row_bytes * rows);
  if (theirs == GGML_TYPE_F32) {
    std::memcpy(matrix.data(), values.data(), made * row_bytes);
  } else {
    ggml_quantize_chunk(theirs, values.data(), matrix.data(), 0, made, columns, nullptr);
  }
  for (std::uint32_t row = made; row < rows; ++row) {
    std::memcpy(matrix.data() + row * row_bytes, matrix.data() + row % made * row_bytes, row_bytes);
  }
  return matrix;
}

Result<std::unique_ptr<GgmlProduct>> GgmlProduct::create(std::uint32_t thread_count) {
  std::unique_ptr<GgmlProduct> made(new GgmlProduct(thread_count));
  ggml_threadpool_params params = ggml_threadpool_params_default(static_cast<int>(thread_count));
  params.paused = true;
  made->threads_ = ggml_threadpool_new(&params);
  if (made->threads_ == nullptr) {
    return Error{Code::kUnavailable, "cannot start the compute threads"};
  }
  return made;
}

GgmlProduct::~GgmlProduct() {
  if (threads_ != nullptr) ggml_threadpool_free(threads_);
  ggml_free(context_);
}

Result<void> GgmlProduct::record(const FileMatrices& matrices, std::uint32_t count, const float* x,
                                 std::uint32_t row_count) {
  CHECK(count > 0, "no matrix to multiply");
  ggml_free(context_);
  const std::size_t tensors = 2 * std::size_t{count} + 1;
  context_ =
      ggml_init({ggml_tensor_overhead() * tensors + ggml_graph_overhead_custom(tensors, false),
                 nullptr, true});
  if (context_ == nullptr) return Error{Code::kUnavailable, "cannot get memory for the graph"};
  graph_ = ggml_new_graph_custom(context_, tensors, false);
  output_.assign(std::size_t{row_count} * matrices.rows, 0.0F);
  ggml_tensor* input = ggml_new_tensor_2d(context_, GGML_TYPE_F32, matrices.columns, row_count);
  input->data = const_cast<float*>(x);  // only read
  for (std::uint32_t i = 0; i < count; ++i) {
    ggml_tensor* matrix =
        ggml_new_tensor_2d(context_, type_of(matrices.type), matrices.columns, matrices.rows);
    CHECK(ggml_nbytes(matrix) <= matrices.stride, "matrices overlap");
    matrix->data = matrices.first + matrices.stride * i;
    ggml_tensor* product = ggml_mul_mat(context_, matrix, input);
    product->data = output_.data();  // each overwrites the one before
    ggml_build_forward_expand(graph_, product);
  }
  return {};
}

Result<void> GgmlProduct::compute() {
  ggml_cplan plan = ggml_graph_plan(graph_, static_cast<int>(thread_count_), threads_);
  if (work_.size() < plan.work_size) work_.resize(plan.work_size);
  plan.work_data = work_.data();
  const ggml_status status = ggml_graph_compute(graph_, &plan);
  ggml_threadpool_pause(threads_);
  if (status == GGML_STATUS_SUCCESS) return {};
  return Error{Code::kInternal,
               std::string("ggml's product failed: ") + ggml_status_to_string(status)};
}

}  // namespace refrain::model
