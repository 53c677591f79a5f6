// GgufFile: an opened, checked and memory-mapped GGUF file. open() first runs our own bounded
// validator (gguf_check.h) over the header, so that ggml's getters, which abort on a wrong type,
// only ever see sound files. Immutable after open(); any thread. ggml headers stay in *.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace refrain::model {

struct TensorInfo {
  std::string name;
  int type = 0;                                      // ggml_type
  std::string type_name;                             // "Q4_1"
  std::array<std::uint64_t, 4> dims = {1, 1, 1, 1};  // ggml order: dims[0] is contiguous (K)
  std::uint64_t file_offset = 0;                     // of the data, from the start of the file
  std::uint64_t byte_count = 0;
};

class GgufFile {
 public:
  // kNotFound, kDataLoss (field and offset named), kUnsupported (tensor type, version).
  static Result<std::unique_ptr<GgufFile>> open(const std::string& path);
  // The same checks on a file held in memory; `name` takes the path's place in messages.
  static Result<std::unique_ptr<GgufFile>> from_bytes(std::vector<std::byte> bytes,
                                                      const std::string& name);
  ~GgufFile();

  // Values of metadata keys, or nothing when the key is absent. A key of another type than asked
  // for is kInvalidArgument naming the key and both types. Integers of every width are accepted by
  // get_uint (if not negative), both float widths by get_real.
  Result<std::optional<std::uint64_t>> get_uint(std::string_view key) const;
  Result<std::optional<double>> get_real(std::string_view key) const;
  Result<std::optional<bool>> get_bool(std::string_view key) const;
  Result<std::optional<std::string>> get_text(std::string_view key) const;
  Result<std::optional<std::vector<std::string>>> get_text_list(std::string_view key) const;
  Result<std::optional<std::vector<float>>> get_real_list(std::string_view key) const;
  Result<std::optional<std::vector<std::int64_t>>> get_int_list(std::string_view key) const;

  std::span<const TensorInfo> tensors() const;
  const TensorInfo* find_tensor(std::string_view name) const;  // null if absent
  // The tensor's bytes inside the mapping.
  std::span<const std::byte> tensor_data(const TensorInfo& tensor) const;

  // The memory of `data`, a part of the mapping, may go back to the system; it is read from the
  // file again when it is used again.
  void release(std::span<const std::byte> data) const;

  const std::string& path() const;
  std::uint64_t file_bytes() const;
  std::uint64_t header_bytes() const;         // up to the start of tensor data
  std::span<const std::byte> header() const;  // those bytes

 private:
  struct Impl;
  static Result<std::unique_ptr<GgufFile>> check(std::unique_ptr<Impl> impl);
  explicit GgufFile(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace refrain::model
