// The tensor types a GGUF file can name: how many values a block holds, how many bytes it takes,
// and whether we compute with it. Types that only other programs know are listed too, so that they
// are refused by name. Constant tables, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace refrain::model {

struct TensorType {
  std::uint32_t id = 0;            // ggml_type
  std::string_view name;           // "Q4_1"
  std::uint32_t block_values = 0;  // values per block, along the contiguous dimension
  std::uint32_t block_bytes = 0;
  bool supported = false;
};

// Null for a number that no type has (or that ggml has given up).
const TensorType* find_tensor_type(std::uint32_t id);

// "F32, F16, BF16, ...", for messages.
std::string supported_tensor_types();

}  // namespace refrain::model
