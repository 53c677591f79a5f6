#include "engine/schema_bounds.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/str.h"

namespace refrain::engine {
namespace {

using Json = nlohmann::json;

Error too_large(std::string_view what, std::size_t limit, std::string_view field) {
  return Error{Code::kTooLarge,
               str_cat("the schema in `", field, "` ", what, ", allowed are ", limit),
               "send a smaller schema", std::string(field)};
}

// The sum of the upper bounds of all {m,n} in a regular expression. Compiling time grows with
// its square, so the sum of a whole schema is bounded.
std::uint64_t repetitions_in(std::string_view pattern, std::uint64_t limit) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '\\') {
      ++i;
      continue;
    }
    if (pattern[i] != '{') continue;
    std::uint64_t number = 0;
    std::uint64_t largest = 0;
    for (++i; i < pattern.size() && pattern[i] != '}'; ++i) {
      const char c = pattern[i];
      number = c >= '0' && c <= '9'
                   ? std::min(number * 10 + static_cast<std::uint64_t>(c - '0'), limit + 1)
                   : 0;
      largest = std::max(largest, number);
    }
    sum += largest;
  }
  return sum;
}

// Walks a schema without recursion.
class BoundsWalk {
 public:
  BoundsWalk(const GrammarLimits& limits, std::string_view field)
      : limits_(limits), field_(field) {}

  Result<void> run(const Json& root) {
    stack_.push_back({&root, 1});
    while (!stack_.empty()) {
      const Item item = stack_.back();
      stack_.pop_back();
      if (++value_count_ > limits_.max_values)
        return too_large("holds too many values", limits_.max_values, field_);
      if (item.depth > limits_.max_depth)
        return too_large("is nested too deep; levels", limits_.max_depth, field_);
      RETURN_IF_ERROR(visit(item));
    }
    return {};
  }

 private:
  struct Item {
    const Json* value;
    std::uint32_t depth;
  };

  Result<void> visit(const Item& item) {
    if (item.value->is_array()) {
      for (const Json& child : *item.value) stack_.push_back({&child, item.depth + 1});
    } else if (item.value->is_object()) {
      for (const auto& [key, child] : item.value->items()) {
        if (key == "pattern" && child.is_string())
          RETURN_IF_ERROR(add_pattern(child.get_ref<const std::string&>()));
        if (key == "patternProperties" && child.is_object())
          for (const auto& entry : child.items()) RETURN_IF_ERROR(add_pattern(entry.key()));
        stack_.push_back({&child, item.depth + 1});
      }
    }
    return {};
  }

  Result<void> add_pattern(std::string_view pattern) {
    if (pattern.size() > limits_.max_pattern_bytes)
      return too_large("holds a pattern that is too long; bytes", limits_.max_pattern_bytes,
                       field_);
    repetitions_ += repetitions_in(pattern, limits_.max_pattern_repetitions);
    if (repetitions_ > limits_.max_pattern_repetitions)
      return too_large("repeats too often in its patterns; the sum of all {m,n}",
                       limits_.max_pattern_repetitions, field_);
    return {};
  }

  const GrammarLimits& limits_;
  const std::string_view field_;
  std::vector<Item> stack_;
  std::uint64_t value_count_ = 0;
  std::uint64_t repetitions_ = 0;
};

}  // namespace

Result<void> check_schema_bounds(std::string_view text, const GrammarLimits& limits,
                                 std::string_view field) {
  if (text.size() > limits.max_schema_bytes)
    return too_large(str_cat("has ", text.size(), " bytes"), limits.max_schema_bytes, field);
  const Json schema = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (schema.is_discarded())
    return Error{Code::kInvalidArgument, str_cat("the schema in `", field, "` is not JSON"),
                 "send a JSON schema object", std::string(field)};
  return BoundsWalk(limits, field).run(schema);
}

}  // namespace refrain::engine
