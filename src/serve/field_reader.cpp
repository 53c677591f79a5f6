// See field_reader.h.
#include "serve/field_reader.h"

#include <cmath>

#include "base/str.h"

namespace refrain::serve {
namespace {

bool as_double(const Json& json, double* target) {
  if (const auto* value = std::get_if<std::int64_t>(&json.value)) {
    *target = static_cast<double>(*value);
  } else if (const auto* natural = std::get_if<std::uint64_t>(&json.value)) {
    *target = static_cast<double>(*natural);
  } else if (const auto* real = std::get_if<double>(&json.value)) {
    *target = *real;
  } else {
    return false;
  }
  return true;
}

std::string range_text(std::int64_t lowest, std::int64_t highest) {
  if (highest == std::numeric_limits<std::int64_t>::max()) return str_cat("at least ", lowest);
  return str_cat("between ", lowest, " and ", highest);
}

}  // namespace

bool whole_number(const Json& json, std::int64_t* target) {
  if (const auto* value = std::get_if<std::int64_t>(&json.value)) {
    *target = *value;
    return true;
  }
  if (std::holds_alternative<std::uint64_t>(json.value)) {
    *target = std::numeric_limits<std::int64_t>::max();  // "huge" is all that callers ask for
    return true;
  }
  const auto* real = std::get_if<double>(&json.value);
  if (real == nullptr || std::floor(*real) != *real) return false;
  // Beyond 64 bits, "huge" is again all that counts; NaN and infinity do not come out of JSON.
  constexpr double kBound = 9.2e18;
  *target = *real > kBound    ? std::numeric_limits<std::int64_t>::max()
            : *real < -kBound ? std::numeric_limits<std::int64_t>::min()
                              : static_cast<std::int64_t>(*real);
  return true;
}

FieldReader::FieldReader(const Json& object, std::string path)
    : object_(object), path_(std::move(path)) {
  if (object.object() == nullptr) {
    const std::string what = path_.empty() ? "the body" : str_cat("`", path_, "`");
    fail(Error{Code::kInvalidArgument,
               str_cat(what, " must be a JSON object, not ", object.kind_name()), "", path_});
  }
}

const Json* FieldReader::any(std::string_view name) const {
  const Json* member = object_.find(name);
  return member == nullptr || member->is_null() ? nullptr : member;
}

std::string FieldReader::path_of(std::string_view name) const {
  return path_.empty() ? std::string(name) : str_cat(path_, ".", name);
}

void FieldReader::fail(Error error) {
  if (failed_) return;
  failed_ = true;
  error_ = std::move(error);
}

void FieldReader::fail(std::string_view name, std::string message, std::string hint, Code code) {
  const std::string path = path_of(name);
  fail(Error{code, str_cat("`", path, "` ", message), std::move(hint), path});
}

const Json* FieldReader::typed(std::string_view name, std::string_view wanted,
                               bool (*accepts)(const Json&)) {
  const Json* member = any(name);
  if (member == nullptr || accepts(*member)) return member;
  fail(name, str_cat("must be ", wanted, ", not ", member->kind_name()));
  return nullptr;
}

void FieldReader::number(std::string_view name, double lowest, double highest, double* target) {
  const Json* member = any(name);
  if (member == nullptr) return;
  double value = 0;
  if (!as_double(*member, &value)) {
    fail(name, str_cat("must be a number, not ", member->kind_name()));
  } else if (!(value >= lowest && value <= highest)) {
    fail(name, str_cat("must be between ", lowest, " and ", highest, ", not ", value));
  } else {
    *target = value;
  }
}

void FieldReader::number(std::string_view name, double lowest, double highest, float* target) {
  double value = *target;
  number(name, lowest, highest, &value);
  *target = static_cast<float>(value);
}

bool FieldReader::integer(std::string_view name, std::int64_t lowest, std::int64_t highest,
                          std::int64_t* target) {
  const Json* member = any(name);
  if (member == nullptr) return false;
  std::int64_t value = 0;
  if (!whole_number(*member, &value)) {
    fail(name, str_cat("must be an integer, not ", member->kind_name()));
    return false;
  }
  if (value < lowest || value > highest) {
    fail(name, str_cat("must be ", range_text(lowest, highest), ", not ", value));
    return false;
  }
  *target = value;
  return true;
}

void FieldReader::boolean(std::string_view name, bool* target) {
  const Json* member = typed(
      name, "a boolean", [](const Json& json) { return std::holds_alternative<bool>(json.value); });
  if (member != nullptr) *target = std::get<bool>(member->value);
}

bool FieldReader::text(std::string_view name, std::string* target) {
  const Json* member =
      typed(name, "a string", [](const Json& json) { return json.text() != nullptr; });
  if (member == nullptr) return false;
  *target = *member->text();
  return true;
}

const Json* FieldReader::object(std::string_view name) {
  return typed(name, "an object", [](const Json& json) { return json.object() != nullptr; });
}

const Json* FieldReader::array(std::string_view name) {
  return typed(name, "an array", [](const Json& json) { return json.array() != nullptr; });
}

Result<TokenList> read_tokens(const Json& array, const std::string& path,
                              std::size_t vocabulary_size) {
  const JsonArray* items = array.array();
  if (items == nullptr)
    return Error{Code::kInvalidArgument,
                 str_cat("`", path, "` must be an array of token ids, not ", array.kind_name()), "",
                 path};
  TokenList tokens;
  tokens.reserve(items->size());
  for (std::size_t i = 0; i < items->size(); ++i) {
    std::int64_t id = 0;
    const Json& item = (*items)[i];
    if (!whole_number(item, &id))
      return Error{Code::kInvalidArgument,
                   str_cat("`", path, "[", i, "]` must be a token id, not ", item.kind_name()), "",
                   path};
    if (id < 0 || static_cast<std::uint64_t>(id) >= vocabulary_size)
      return Error{Code::kInvalidArgument,
                   str_cat("`", path, "[", i, "]` is ", id, "; token ids go from 0 to ",
                           vocabulary_size - 1),
                   "", path};
    tokens.push_back(TokenId{static_cast<std::int32_t>(id)});
  }
  return tokens;
}

}  // namespace refrain::serve
