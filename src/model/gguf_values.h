// Typed reading of metadata out of a checked GGUF header; what GgufFile's getters do. The header
// must come from check_gguf() over the same bytes. Plain functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/gguf_check.h"

namespace refrain::model {

class GgufValues {
 public:
  GgufValues(std::span<const std::byte> file, const GgufHeader& header, std::string_view path)
      : file_(file), header_(header), path_(path) {}

  const GgufKey* find(std::string_view name) const;

  // The rules of GgufFile's getters; see there.
  Result<std::optional<std::uint64_t>> get_uint(std::string_view name) const;
  Result<std::optional<double>> get_real(std::string_view name) const;
  Result<std::optional<bool>> get_bool(std::string_view name) const;
  Result<std::optional<std::string>> get_text(std::string_view name) const;
  Result<std::optional<std::vector<std::string>>> get_text_list(std::string_view name) const;
  Result<std::optional<std::vector<float>>> get_real_list(std::string_view name) const;
  Result<std::optional<std::vector<std::int64_t>>> get_int_list(std::string_view name) const;

 private:
  Error wrong_type(const GgufKey& key, std::string_view wanted) const;

  std::span<const std::byte> file_;
  const GgufHeader& header_;
  std::string_view path_;
};

}  // namespace refrain::model
