// Tests: `x is NAME(arguments)`. Quirks of Jinja2 kept where templates can see them. Pure
// functions of their arguments.
#include <algorithm>
#include <array>

#include "text/jinja_arguments.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_parser.h"

namespace refrain::text::jinja {
namespace {

using Entry = std::pair<std::string_view, TestFunction>;

Result<Value> only(std::string_view name, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const auto given, bind(name, arguments, {"other"}));
  return required(given, 0, name);
}

template <typename Predicate>
Result<bool> plain(const Arguments& arguments, Predicate predicate) {
  ASSIGN_OR_RETURN(const auto given, bind("test", arguments, {}));
  return predicate();
}

Result<bool> defined(Interpreter&, const Value& v, const Arguments& a) {
  return plain(a, [&] { return !v.is_undefined(); });
}
Result<bool> is_undefined(Interpreter&, const Value& v, const Arguments& a) {
  return plain(a, [&] { return v.is_undefined(); });
}
Result<bool> is_none(Interpreter&, const Value& v, const Arguments& a) {
  return plain(a, [&] { return v.is_none(); });
}
Result<bool> is_string(Interpreter&, const Value& v, const Arguments& a) {
  return plain(a, [&] { return v.as_text() != nullptr; });
}
Result<bool> is_number(Interpreter&, const Value& v, const Arguments& a) {
  return plain(a, [&] { return v.is_number(); });  // booleans too, as in Python
}
Result<bool> is_integer(Interpreter&, const Value& v, const Arguments& a) {
  return plain(a, [&] { return v.as<std::int64_t>() != nullptr; });
}
Result<bool> is_float(Interpreter&, const Value& v, const Arguments& a) {
  return plain(a, [&] { return v.as<Float>() != nullptr; });
}
Result<bool> is_boolean(Interpreter&, const Value& v, const Arguments& a) {
  return plain(a, [&] { return v.as<bool>() != nullptr; });
}
Result<bool> is_true(Interpreter&, const Value& v, const Arguments& a) {
  return plain(a, [&] { return v.as<bool>() != nullptr && *v.as<bool>(); });
}
Result<bool> is_false(Interpreter&, const Value& v, const Arguments& a) {
  return plain(a, [&] { return v.as<bool>() != nullptr && !*v.as<bool>(); });
}
Result<bool> is_mapping(Interpreter&, const Value& v, const Arguments& a) {
  return plain(a, [&] { return v.as_dict() != nullptr; });
}
// Undefined iterates as nothing, so it counts.
Result<bool> is_iterable(Interpreter&, const Value& v, const Arguments& a) {
  return plain(a, [&] {
    return v.as_text() != nullptr || v.as_list() != nullptr || v.as_dict() != nullptr ||
           v.as_loop() != nullptr || v.is_undefined();
  });
}
Result<bool> is_sequence(Interpreter&, const Value& v, const Arguments& a) {
  return plain(a, [&] {
    return v.as_text() != nullptr || v.as_list() != nullptr || v.as_dict() != nullptr ||
           v.is_undefined();
  });
}
Result<bool> is_callable(Interpreter&, const Value& v, const Arguments& a) {
  return plain(a, [&] {
    return v.as_macro() != nullptr || v.as<Builtin>() != nullptr || v.as_method() != nullptr ||
           v.is_undefined();
  });
}

Result<bool> remainder_is(Interpreter& run, const Value& v, std::int64_t divisor,
                          std::int64_t wanted) {
  ASSIGN_OR_RETURN(const Value remainder,
                   run.binary(Operator::kModulo, v, Value::integer(divisor)));
  return equal(remainder, Value::integer(wanted));
}
Result<bool> is_odd(Interpreter& run, const Value& v, const Arguments&) {
  return remainder_is(run, v, 2, 1);
}
Result<bool> is_even(Interpreter& run, const Value& v, const Arguments&) {
  return remainder_is(run, v, 2, 0);
}
Result<bool> divisible_by(Interpreter& run, const Value& v, const Arguments& a) {
  ASSIGN_OR_RETURN(const Value divisor, only("divisibleby", a));
  ASSIGN_OR_RETURN(const Value remainder, run.binary(Operator::kModulo, v, divisor));
  return equal(remainder, Value::integer(0));
}

template <Operator op>
Result<bool> comparison(Interpreter& run, const Value& v, const Arguments& a) {
  ASSIGN_OR_RETURN(const Value other, only("comparison", a));
  return run.compares(op, v, other);
}

Result<bool> same_as(Interpreter&, const Value& v, const Arguments& a) {
  ASSIGN_OR_RETURN(const Value other, only("sameas", a));
  if (v.state().index() != other.state().index()) return false;
  if (v.as_list() != nullptr) return v.as_list() == other.as_list();
  if (v.as_dict() != nullptr) return v.as_dict() == other.as_dict();
  return equal(v, other);
}

// As str.isupper and str.islower: some letters of that case, none of the other.
template <bool upper>
Result<bool> has_case(Interpreter& run, const Value& v, const Arguments& a) {
  ASSIGN_OR_RETURN(const Text text, run.text_of(v));
  RETURN_IF_ERROR(run.charge_bytes(text.size() * 8));
  return plain(a, [&] {
    bool seen = false;
    for (std::size_t at = 0; at < text.size();) {
      const Character c = character_at(text.bytes(), at);
      at += c.length;
      if (upper ? is_lower(c.code_point) : is_upper(c.code_point)) return false;
      seen = seen || (upper ? is_upper(c.code_point) : is_lower(c.code_point));
    }
    return seen;
  });
}

constexpr std::array kTests = {
    Entry{"defined", defined},
    Entry{"undefined", is_undefined},
    Entry{"none", is_none},
    Entry{"string", is_string},
    Entry{"number", is_number},
    Entry{"integer", is_integer},
    Entry{"float", is_float},
    Entry{"boolean", is_boolean},
    Entry{"true", is_true},
    Entry{"false", is_false},
    Entry{"mapping", is_mapping},
    Entry{"iterable", is_iterable},
    Entry{"sequence", is_sequence},
    Entry{"callable", is_callable},
    Entry{"odd", is_odd},
    Entry{"even", is_even},
    Entry{"divisibleby", divisible_by},
    Entry{"sameas", same_as},
    Entry{"upper", has_case<true>},
    Entry{"lower", has_case<false>},
    Entry{"in", comparison<Operator::kIn>},
    Entry{"equalto", comparison<Operator::kEqual>},
    Entry{"eq", comparison<Operator::kEqual>},
    Entry{"==", comparison<Operator::kEqual>},
    Entry{"ne", comparison<Operator::kNotEqual>},
    Entry{"!=", comparison<Operator::kNotEqual>},
    Entry{"lt", comparison<Operator::kLess>},
    Entry{"<", comparison<Operator::kLess>},
    Entry{"lessthan", comparison<Operator::kLess>},
    Entry{"le", comparison<Operator::kLessEqual>},
    Entry{"<=", comparison<Operator::kLessEqual>},
    Entry{"gt", comparison<Operator::kGreater>},
    Entry{">", comparison<Operator::kGreater>},
    Entry{"greaterthan", comparison<Operator::kGreater>},
    Entry{"ge", comparison<Operator::kGreaterEqual>},
    Entry{">=", comparison<Operator::kGreaterEqual>},
};

}  // namespace

TestFunction find_test(std::string_view name) {
  const auto* found = std::find_if(kTests.begin(), kTests.end(),
                                   [&](const Entry& entry) { return entry.first == name; });
  return found != kTests.end() ? found->second : nullptr;
}

}  // namespace refrain::text::jinja
