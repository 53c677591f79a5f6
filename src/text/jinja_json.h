// JSON in and out of the template interpreter. Key order and the spelling of fractions are kept.
// Plain functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/jinja_value.h"

namespace refrain::text::jinja {

// All text of the result has `origin`. kInvalidArgument for what is not JSON or nests too deep.
Result<Value> parse_json(std::string_view json, std::int32_t origin);

struct JsonStyle {
  std::string indent;  // "" : one line
  bool is_multi_line = false;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool ascii_only = false;
  bool sort_keys = false;
};
// As Python's json.dumps. An error for undefined values and for what is no JSON. Cost: the
// value's weight. The result stops growing at `max_bytes`.
Result<Text> to_json(const Value& value, const JsonStyle& style, std::size_t max_bytes);

}  // namespace refrain::text::jinja
