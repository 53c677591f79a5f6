// Binding of arguments. Pure functions, any thread.
#include "text/jinja_arguments.h"

#include <algorithm>

namespace refrain::text::jinja {

Result<Bound> bind(std::string_view callee, const Arguments& arguments,
                   std::initializer_list<std::string_view> parameters) {
  Bound out(parameters.size());
  if (arguments.positional.size() > parameters.size()) {
    return wrong(str_cat("`", callee, "` takes at most ", parameters.size(), " arguments"));
  }
  std::copy(arguments.positional.begin(), arguments.positional.end(), out.begin());
  for (const auto& [name, value] : arguments.keywords) {
    const auto* found = std::find(parameters.begin(), parameters.end(), name);
    if (found == parameters.end()) {
      return wrong(str_cat("`", callee, "` has no argument `", name, "`"));
    }
    auto& slot = out[static_cast<std::size_t>(found - parameters.begin())];
    if (slot.has_value()) return wrong(str_cat("`", callee, "` got `", name, "` twice"));
    slot = value;
  }
  return out;
}

Result<Value> required(const Bound& bound, std::size_t at, std::string_view callee) {
  if (!bound[at].has_value()) return wrong(str_cat("`", callee, "` needs ", at + 1, " arguments"));
  return *bound[at];
}

bool flag(const Bound& bound, std::size_t at, bool otherwise) {
  return bound[at].has_value() ? truth(*bound[at]) : otherwise;
}

Result<std::int64_t> integer(const Bound& bound, std::size_t at, std::int64_t otherwise) {
  if (!bound[at].has_value() || bound[at]->is_none()) return otherwise;
  if (!bound[at]->is_integral()) {
    return wrong(str_cat("expected an integer, got a `", type_name(*bound[at]), "`"));
  }
  return bound[at]->to_integer();
}

Result<Text> text_argument(const Value& value, std::string_view callee) {
  if (value.as_text() == nullptr) {
    return wrong(str_cat("`", callee, "` needs a string, got a `", type_name(value), "`"));
  }
  return *value.as_text();
}

}  // namespace refrain::text::jinja
