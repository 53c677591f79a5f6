// The global functions: range, dict, namespace, raise_exception, strftime_now. One render, one
// thread.
#include <array>
#include <ctime>

#include "base/str.h"
#include "text/jinja_arguments.h"
#include "text/jinja_interpreter.h"

namespace refrain::text::jinja {

Result<Value> Interpreter::call_builtin(Builtin builtin, const Arguments& arguments) {
  switch (builtin) {
    case Builtin::kRange:
      return call_range(arguments);
    case Builtin::kDict:
      return call_dict(arguments);
    case Builtin::kNamespace:
      return call_namespace(arguments);
    case Builtin::kStrftimeNow:
      return call_strftime(arguments);
    case Builtin::kRaiseException:
      break;
  }
  ASSIGN_OR_RETURN(const auto given, bind("raise_exception", arguments, {"message"}));
  ASSIGN_OR_RETURN(const Value message, required(given, 0, "raise_exception"));
  ASSIGN_OR_RETURN(const Text text, text_of(message));
  refused_ = true;
  return Error{Code::kInvalidArgument, to_valid_utf8(text.bytes()),
               "the model's chat template refuses these messages", "messages"};
}

Result<Value> Interpreter::call_range(const Arguments& arguments) {
  ASSIGN_OR_RETURN(const auto given, bind("range", arguments, {"start", "stop", "step"}));
  ASSIGN_OR_RETURN(const Value first, required(given, 0, "range"));
  for (const auto& bound : given) {
    if (bound.has_value() && !bound->is_integral()) {
      return wrong(str_cat("`range` needs integers, got a `", type_name(*bound), "`"));
    }
  }
  const bool single = !given[1].has_value();
  const std::int64_t start = single ? 0 : first.to_integer();
  const std::int64_t stop = single ? first.to_integer() : given[1]->to_integer();
  const std::int64_t step = given[2].has_value() ? given[2]->to_integer() : 1;
  if (step == 0) return wrong("`range` with step 0");
  Values items;
  std::int64_t at = start;
  while (step > 0 ? at < stop : at > stop) {
    if (static_cast<std::int64_t>(items.size()) >= kMaxRange) {
      return wrong(str_cat("`range` of more than ", kMaxRange, " items"));
    }
    items.push_back(Value::integer(at));
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  RETURN_IF_ERROR(charge(items.size()));
  return make_list(std::move(items));
}

Result<Value> Interpreter::call_dict(const Arguments& arguments) {
  Dict dict;
  if (arguments.positional.size() > 1) return wrong("`dict` takes at most one mapping");
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (const Dict* other = source.as_dict()) {
      RETURN_IF_ERROR(charge(other->entries.size()));
      dict = *other;
    } else {
      ASSIGN_OR_RETURN(const auto pairs, items_of(source));
      for (const Value& pair : pairs->items) {
        ASSIGN_OR_RETURN(const auto entry, items_of(pair));
        if (entry->items.size() != 2) return wrong("`dict` needs pairs of key and value");
        RETURN_IF_ERROR(put(dict, entry->items[0], entry->items[1]));
      }
    }
  }
  for (const auto& [key, value] : arguments.keywords) {
    RETURN_IF_ERROR(put(dict, Value::text(key), value));
  }
  return make_dict(std::move(dict));
}

Result<Value> Interpreter::call_namespace(const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Value initial, call_dict(arguments));
  namespaces_.push_back(std::make_unique<Namespace>());
  Namespace* space = namespaces_.back().get();
  for (const auto& [key, value] : initial.as_dict()->entries) {
    if (key.as_text() == nullptr) return wrong("`namespace` needs text keys");
    space->attributes.insert_or_assign(key.as_text()->bytes(), value);
  }
  return Value(space);
}

// The day is cut to midnight UTC: a prompt that names the time of day would miss the cache of
// every request before it.
Result<Value> Interpreter::call_strftime(const Arguments& arguments) {
  ASSIGN_OR_RETURN(const auto given, bind("strftime_now", arguments, {"format"}));
  ASSIGN_OR_RETURN(const Value format, required(given, 0, "strftime_now"));
  ASSIGN_OR_RETURN(const Text text, text_argument(format, "strftime_now"));
  if (text.size() > 256) return wrong("`strftime_now` with a format of more than 256 bytes");
  constexpr std::int64_t kDayS = 86'400;
  std::int64_t day = now_unix_s_ / kDayS;
  if (now_unix_s_ % kDayS < 0) --day;
  const auto midnight = static_cast<std::time_t>(day * kDayS);
  std::tm parts{};
  if (gmtime_r(&midnight, &parts) == nullptr) return wrong("the date is out of range");
  std::array<char, 8192> buffer{};
  const std::size_t length =
      std::strftime(buffer.data(), buffer.size(), text.bytes().c_str(), &parts);
  return make_text(Text(std::string_view(buffer.data(), length), text.client_origin()));
}

}  // namespace refrain::text::jinja
