// check_gguf: our own bounded reader of a GGUF header (format versions 2 and 3, little-endian). It
// works on bytes alone, so that it can be fuzzed, and trusts none of them: every count is held
// against the bytes that are there, every sum and product against overflow, and nothing is
// allocated by a size that the file merely claims. Time is O(n log n) in the header's size. What it
// accepts is sound for ggml's readers too. Plain functions, any thread.
//
//   GGUF | version | tensor count | key count | keys | tensor records | pad | tensor data
//   0      4         8              16          24                           data_offset
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/gguf_file.h"

namespace refrain::model {

enum class GgufType : std::uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
};

// "uint32"; "?" for a number that is no type.
std::string_view name_of(GgufType type);
// Bytes of one value of a type of fixed size; 0 for strings and arrays.
std::size_t width_of(GgufType type);

// One metadata entry; its value stays in the file.
struct GgufKey {
  std::string_view name;  // points into the file
  GgufType type = GgufType::kUint8;
  GgufType element = GgufType::kUint8;  // == type unless an array
  std::uint64_t count = 1;              // elements of an array
  std::uint64_t offset = 0;             // of the value, or of an array's first element
};

struct GgufHeader {
  std::uint32_t version = 0;
  std::uint64_t alignment = 32;
  std::uint64_t data_offset = 0;    // where tensor data begins
  std::vector<GgufKey> keys;        // ascending by name
  std::vector<TensorInfo> tensors;  // in file order
};

// Limits beyond those of the format; each far above what real models need. ggml's reader, which
// runs after this check, compares each name with all before it: hence no more than some thousands.
struct GgufLimits {
  static constexpr std::uint64_t kKeys = 4'096;
  static constexpr std::uint64_t kTensors = 16'384;
  static constexpr std::uint64_t kKeyBytes = 65'535;
  static constexpr std::uint64_t kStringBytes = 8U << 20U;
  static constexpr std::uint64_t kTensorNameBytes = 63;  // ggml keeps 64 with the final NUL
  static constexpr std::uint64_t kDimensions = 4;
  static constexpr std::uint64_t kAlignment = 1U << 20U;
};

// Checks all of `file`; `path` is for messages. The header points into `file`. kDataLoss with
// field and byte offset in the message if the file is damaged; kUnsupported for another version or
// a tensor type we do not compute with.
Result<GgufHeader> check_gguf(std::span<const std::byte> file, std::string_view path);

// A name out of a file, fit for one line of a message: valid UTF-8, no control characters, cut
// when long.
std::string printable(std::string_view name);

}  // namespace refrain::model
