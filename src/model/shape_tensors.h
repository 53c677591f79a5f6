// The tensors that a shape implies: name, dimensions, and whether they may be quantized. Every
// tensor of the file must be one of them, for one that we ignored would make the answers wrong.
// Plain functions, loading thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/gguf_file.h"
#include "model/shape.h"

namespace refrain::model {

enum class TensorUse {
  kMatrix,  // any supported type
  kPlain,   // F32: norms, biases, frequency factors
};

// What only the tensors tell: vocabulary size, biases, tied output, parameter count, bytes.
Result<void> read_tensor_facts(const GgufFile& file, ModelShape& shape);

// kDataLoss naming the first tensor that is missing or has other dimensions or type than the shape
// says; kUnsupported naming one that the architecture does not have.
Result<void> check_tensors(const GgufFile& file, const ModelShape& shape);

// One tensor; `dims` in ggml order.
Result<void> check_tensor(const GgufFile& file, std::string_view name,
                          const std::vector<std::uint64_t>& dims, TensorUse use);

Error tensor_error(const GgufFile& file, std::string_view name, std::string_view what);

}  // namespace refrain::model
