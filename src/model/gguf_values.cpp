// Reads values in place; offsets and lengths were checked with the header.
#include "model/gguf_values.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/str.h"

namespace refrain::model {
namespace {

template <typename T>
T load_at(std::span<const std::byte> file, std::uint64_t offset) {
  T value;
  std::memcpy(&value, file.data() + offset, sizeof(T));
  return value;
}

// An integer of any width but uint64, which does not fit; nothing for other types.
std::optional<std::int64_t> load_integer(std::span<const std::byte> file, GgufType type,
                                         std::uint64_t offset) {
  switch (type) {
    case GgufType::kUint8:
      return load_at<std::uint8_t>(file, offset);
    case GgufType::kInt8:
      return load_at<std::int8_t>(file, offset);
    case GgufType::kUint16:
      return load_at<std::uint16_t>(file, offset);
    case GgufType::kInt16:
      return load_at<std::int16_t>(file, offset);
    case GgufType::kUint32:
      return load_at<std::uint32_t>(file, offset);
    case GgufType::kInt32:
      return load_at<std::int32_t>(file, offset);
    case GgufType::kInt64:
      return load_at<std::int64_t>(file, offset);
    default:
      return std::nullopt;
  }
}

std::string load_text(std::span<const std::byte> file, std::uint64_t& offset) {
  const auto length = load_at<std::uint64_t>(file, offset);
  const auto* begin = reinterpret_cast<const char*>(file.data()) + offset + sizeof(length);
  offset += sizeof(length) + length;
  return {begin, length};
}

std::string type_of(const GgufKey& key) {
  if (key.type != GgufType::kArray) return std::string(name_of(key.type));
  return str_cat("array of ", name_of(key.element));
}

}  // namespace

const GgufKey* GgufValues::find(std::string_view name) const {
  const auto& keys = header_.keys;
  const auto at =
      std::lower_bound(keys.begin(), keys.end(), name,
                       [](const GgufKey& key, auto wanted) { return key.name < wanted; });
  return at != keys.end() && at->name == name ? &*at : nullptr;
}

Error GgufValues::wrong_type(const GgufKey& key, std::string_view wanted) const {
  return Error{Code::kInvalidArgument,
               str_cat("`", path_, "`: ", printable(key.name), " at byte ", key.offset, ": is ",
                       type_of(key), ", must be ", wanted),
               "the file was written wrongly; convert the model again", std::string(key.name)};
}

Result<std::optional<std::uint64_t>> GgufValues::get_uint(std::string_view name) const {
  const GgufKey* key = find(name);
  if (key == nullptr) return std::optional<std::uint64_t>();
  if (key->type == GgufType::kUint64)
    return std::optional(load_at<std::uint64_t>(file_, key->offset));
  const auto value = load_integer(file_, key->type, key->offset);
  if (!value) return wrong_type(*key, "an integer");
  if (*value < 0) {
    return Error{
        Code::kInvalidArgument,
        str_cat("`", path_, "`: ", name, " at byte ", key->offset, ": ", *value, " is negative"),
        "the file was written wrongly; convert the model again", std::string(name)};
  }
  return std::optional(static_cast<std::uint64_t>(*value));
}

Result<std::optional<double>> GgufValues::get_real(std::string_view name) const {
  const GgufKey* key = find(name);
  if (key == nullptr) return std::optional<double>();
  if (key->type == GgufType::kFloat32)
    return std::optional<double>(load_at<float>(file_, key->offset));
  if (key->type == GgufType::kFloat64) return std::optional(load_at<double>(file_, key->offset));
  return wrong_type(*key, "a floating-point number");
}

Result<std::optional<bool>> GgufValues::get_bool(std::string_view name) const {
  const GgufKey* key = find(name);
  if (key == nullptr) return std::optional<bool>();
  if (key->type != GgufType::kBool) return wrong_type(*key, "boolean");
  return std::optional(load_at<std::uint8_t>(file_, key->offset) != 0);
}

Result<std::optional<std::string>> GgufValues::get_text(std::string_view name) const {
  const GgufKey* key = find(name);
  if (key == nullptr) return std::optional<std::string>();
  if (key->type != GgufType::kString) return wrong_type(*key, "string");
  std::uint64_t offset = key->offset;
  return std::optional(load_text(file_, offset));
}

Result<std::optional<std::vector<std::string>>> GgufValues::get_text_list(
    std::string_view name) const {
  const GgufKey* key = find(name);
  if (key == nullptr) return std::optional<std::vector<std::string>>();
  if (key->type != GgufType::kArray || key->element != GgufType::kString)
    return wrong_type(*key, "array of string");
  std::vector<std::string> list;
  list.reserve(key->count);  // at most an eighth of the file's bytes, checked
  std::uint64_t offset = key->offset;
  for (std::uint64_t i = 0; i < key->count; ++i) list.push_back(load_text(file_, offset));
  return std::optional(std::move(list));
}

Result<std::optional<std::vector<float>>> GgufValues::get_real_list(std::string_view name) const {
  const GgufKey* key = find(name);
  if (key == nullptr) return std::optional<std::vector<float>>();
  const bool wide = key->element == GgufType::kFloat64;
  if (key->type != GgufType::kArray || (!wide && key->element != GgufType::kFloat32))
    return wrong_type(*key, "array of float32");
  std::vector<float> list(key->count);
  for (std::uint64_t i = 0; i < key->count; ++i) {
    list[i] = wide ? static_cast<float>(load_at<double>(file_, key->offset + 8 * i))
                   : load_at<float>(file_, key->offset + 4 * i);
  }
  return std::optional(std::move(list));
}

Result<std::optional<std::vector<std::int64_t>>> GgufValues::get_int_list(
    std::string_view name) const {
  const GgufKey* key = find(name);
  if (key == nullptr) return std::optional<std::vector<std::int64_t>>();
  if (key->type != GgufType::kArray) return wrong_type(*key, "array of integers");
  std::vector<std::int64_t> list;
  list.reserve(key->count);
  const std::size_t width = width_of(key->element);
  for (std::uint64_t i = 0; i < key->count; ++i) {
    const auto value = load_integer(file_, key->element, key->offset + width * i);
    if (!value) return wrong_type(*key, "array of integers up to 64 bits, signed");
    list.push_back(*value);
  }
  return std::optional(std::move(list));
}

}  // namespace refrain::model
