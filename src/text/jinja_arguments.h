// Binds the arguments of a filter, test, method or builtin to its parameters. Plain functions.
//
//   ASSIGN_OR_RETURN(const auto given, bind("replace", arguments, {"old", "new", "count"}));
//   if (!given[0].is_undefined()) ...
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/str.h"
#include "text/jinja_ast.h"

namespace refrain::text::jinja {

inline Error wrong(std::string message) {
  return Error{Code::kInvalidArgument, std::move(message)};
}

// One entry per parameter, empty where nothing was given. Too many, unknown or doubled arguments
// are errors.
using Bound = std::vector<std::optional<Value>>;
Result<Bound> bind(std::string_view callee, const Arguments& arguments,
                   std::initializer_list<std::string_view> parameters);

Result<Value> required(const Bound& bound, std::size_t at, std::string_view callee);
bool flag(const Bound& bound, std::size_t at, bool otherwise);
// Integers and booleans; none counts as absent.
Result<std::int64_t> integer(const Bound& bound, std::size_t at, std::int64_t otherwise);
// The text of a string argument; an error for other values.
Result<Text> text_argument(const Value& value, std::string_view callee);

}  // namespace refrain::text::jinja
