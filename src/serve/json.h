// Json: a parsed JSON value that keeps the key order of its text, and the bounded reader that makes
// it. Bodies of clients come in through parse_json() only. Plain values, any thread.
//
//   ASSIGN_OR_RETURN(Json body, parse_json(text, {.max_depth = 64}));
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace refrain::serve {

struct Json;
struct JsonMember;
using JsonArray = std::vector<Json>;
using JsonObject = std::vector<JsonMember>;  // in the order of the text

struct Json {
  // monostate = null. Integers keep their full 64 bits: seeds and token ids never become doubles.
  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, JsonArray,
               JsonObject>
      value;

  bool is_null() const { return std::holds_alternative<std::monostate>(value); }
  const JsonObject* object() const { return std::get_if<JsonObject>(&value); }
  const JsonArray* array() const { return std::get_if<JsonArray>(&value); }
  const std::string* text() const { return std::get_if<std::string>(&value); }
  // The last member of that name (as other readers do), or null for none or a non-object.
  const Json* find(std::string_view name) const;
  // "a string", "an integer" ...: for error messages.
  std::string_view kind_name() const;
};

struct JsonMember {
  std::string name;
  Json value;
};

struct JsonLimits {
  std::uint32_t max_depth = 64;
  std::size_t max_values =
      1'000'000;  // numbers, texts, containers ...: bounds memory per body byte
};

// kInvalidArgument for text that is not JSON (bad UTF-8, lone surrogates and numbers beyond a
// double included; `field` names the member being read), kTooLarge over a limit. A byte order mark
// in front is accepted.
Result<Json> parse_json(std::string_view text, const JsonLimits& limits = {});

}  // namespace refrain::serve
