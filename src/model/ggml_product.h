// GgmlProduct: the same product as our kernels compute, by ggml's own CPU back end: a plain graph
// of ggml_mul_mat on matrices in the file's form, ggml's fastest path for such memory. What
// `refrain bench kernels` compares with. Its threads sleep while nothing is computed. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "kernels/packed_matrix.h"

struct ggml_cgraph;
struct ggml_context;
struct ggml_threadpool;

namespace refrain::model {

// Matrices of one type and shape beside each other, `stride` bytes apart, as in a GGUF file.
struct FileMatrices {
  kernels::WeightType type = kernels::WeightType::kF32;
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  std::byte* first = nullptr;
  std::size_t stride = 0;
};

// One matrix as in a file; 64 random rows that repeat, since speed does not depend on values.
std::vector<std::byte> random_file_matrix(kernels::WeightType type, std::uint32_t rows,
                                          std::uint32_t columns);

class GgmlProduct {
 public:
  // kUnavailable without threads.
  static Result<std::unique_ptr<GgmlProduct>> create(std::uint32_t thread_count);
  ~GgmlProduct();

  // A graph of the first `count` matrices, each with `x` [row_count][columns]. kUnavailable.
  Result<void> record(const FileMatrices& matrices, std::uint32_t count, const float* x,
                      std::uint32_t row_count);
  // Computes them all. kInternal.
  Result<void> compute();
  // [row_count][rows] of the last one.
  const std::vector<float>& output() const { return output_; }

 private:
  explicit GgmlProduct(std::uint32_t thread_count) : thread_count_(thread_count) {}

  const std::uint32_t thread_count_;
  ggml_threadpool* threads_ = nullptr;
  ggml_context* context_ = nullptr;
  ggml_cgraph* graph_ = nullptr;
  std::vector<float> output_;
  std::vector<std::uint8_t> work_;
};

}  // namespace refrain::model
