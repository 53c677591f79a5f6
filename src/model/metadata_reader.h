// MetadataReader: numbers of one architecture (keys `ARCH.*`) with their sane ranges; a value
// outside is an error that names file, key, value and range. Used while loading, one thread.
//
//   ASSIGN_OR_RETURN(shape.layer_count, reader.number("block_count", {1, 1024}));
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/gguf_file.h"

namespace refrain::model {

struct NumberRange {
  std::uint64_t min = 0;
  std::uint64_t max = 0;
};

struct RealRange {
  double min = 0;  // both ends belong to the range
  double max = 0;
};

class MetadataReader {
 public:
  MetadataReader(const GgufFile& file, std::string architecture)
      : file_(file), architecture_(std::move(architecture)) {}

  // kInvalidArgument if absent without a default, of another type, or out of range.
  Result<std::uint32_t> number(std::string_view key, NumberRange range,
                               std::optional<std::uint32_t> absent = std::nullopt) const;
  // Like number(); NaN is in no range.
  Result<float> real(std::string_view key, RealRange range,
                     std::optional<float> absent = std::nullopt) const;
  Result<std::string> text(std::string_view key, std::string_view absent) const;
  Result<bool> flag(std::string_view key, bool absent) const;
  bool has(std::string_view key) const;  // whether a value of any number type but 0 is there

  std::string full_key(std::string_view key) const;
  // Errors about a key of this file: a contradiction in it, or something we do not offer.
  Error invalid(std::string_view key, std::string_view what) const;
  Error unsupported(std::string_view key, std::string_view what, std::string_view hint) const;

 private:
  const GgufFile& file_;
  std::string architecture_;
};

}  // namespace refrain::model
