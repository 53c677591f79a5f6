// Range-checked metadata. Runs on the loading thread.
#include "model/metadata_reader.h"

#include "base/str.h"
#include "model/gguf_check.h"

namespace refrain::model {

std::string MetadataReader::full_key(std::string_view key) const {
  return str_cat(architecture_, ".", key);
}

Error MetadataReader::invalid(std::string_view key, std::string_view what) const {
  const std::string name = full_key(key);
  return Error{Code::kInvalidArgument,
               str_cat("`", to_valid_utf8(file_.path()), "`: ", name, ": ", what),
               "the file was written wrongly; convert the model again", name};
}

Error MetadataReader::unsupported(std::string_view key, std::string_view what,
                                  std::string_view hint) const {
  const std::string name = full_key(key);
  return Error{Code::kUnsupported,
               str_cat("`", to_valid_utf8(file_.path()), "`: ", name, ": ", what),
               std::string(hint), name};
}

Result<std::uint32_t> MetadataReader::number(std::string_view key, NumberRange range,
                                             std::optional<std::uint32_t> absent) const {
  ASSIGN_OR_RETURN(const auto value, file_.get_uint(full_key(key)));
  if (!value) {
    if (absent) return *absent;
    return invalid(key, "is missing");
  }
  if (*value < range.min || *value > range.max)
    return invalid(key, str_cat(*value, " is not between ", range.min, " and ", range.max));
  return static_cast<std::uint32_t>(*value);
}

Result<float> MetadataReader::real(std::string_view key, RealRange range,
                                   std::optional<float> absent) const {
  ASSIGN_OR_RETURN(const auto value, file_.get_real(full_key(key)));
  if (!value) {
    if (absent) return *absent;
    return invalid(key, "is missing");
  }
  if (!(*value >= range.min && *value <= range.max))  // NaN fails both comparisons
    return invalid(key, str_cat(*value, " is not between ", range.min, " and ", range.max));
  return static_cast<float>(*value);
}

Result<std::string> MetadataReader::text(std::string_view key, std::string_view absent) const {
  ASSIGN_OR_RETURN(auto value, file_.get_text(full_key(key)));
  return value ? std::move(*value) : std::string(absent);
}

Result<bool> MetadataReader::flag(std::string_view key, bool absent) const {
  ASSIGN_OR_RETURN(const auto value, file_.get_bool(full_key(key)));
  return value.value_or(absent);
}

bool MetadataReader::has(std::string_view key) const {
  const std::string name = full_key(key);
  const auto integer = file_.get_uint(name);
  if (integer.ok()) return integer->value_or(0) != 0;
  const auto real = file_.get_real(name);
  // A value that is neither is one that we do not know how to read: it counts as there.
  return !real.ok() || real->value_or(0.0) != 0.0;
}

}  // namespace refrain::model
