// Filters of text and of single values. Pure functions of their arguments.
#include "text/jinja_filters.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "text/jinja_arguments.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_json.h"
#include "text/jinja_parser.h"
#include "text/jinja_string.h"

namespace refrain::text::jinja {
namespace {

Result<Value> trim_filter(Interpreter& run, const Value& v, const Arguments& a) {
  ASSIGN_OR_RETURN(const auto given, bind("trim", a, {"chars"}));
  ASSIGN_OR_RETURN(const Text text, run.text_of(v));
  if (!given[0].has_value() || given[0]->is_none()) return run.make_text(strip(text, Side::kBoth));
  ASSIGN_OR_RETURN(const Text chars, text_argument(*given[0], "trim"));
  RETURN_IF_ERROR(run.charge(text.size() * chars.size() / 256));
  const std::string_view view = chars.bytes();
  return run.make_text(strip(text, Side::kBoth, &view));
}

template <Text (*change)(const Text&)>
Result<Value> text_change(Interpreter& run, const Value& v, const Arguments& a) {
  ASSIGN_OR_RETURN(const auto given, bind("filter", a, {}));
  ASSIGN_OR_RETURN(const Text text, run.text_of(v));
  RETURN_IF_ERROR(run.charge_bytes(text.size() * 16));
  return run.make_text(change(text));
}
Text upper(const Text& text) {
  return change_case(text, LetterCase::kUpper);
}
Text lower(const Text& text) {
  return change_case(text, LetterCase::kLower);
}
Text same(const Text& text) {
  return text;
}

Text escape(const Text& text) {
  Text out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::string_view one = std::string_view(text.bytes()).substr(at, 1);
    const std::string_view entity = one == "&"    ? "&amp;"
                                    : one == "<"  ? "&lt;"
                                    : one == ">"  ? "&gt;"
                                    : one == "\"" ? "&#34;"
                                    : one == "'"  ? "&#39;"
                                                  : one;
    out.append(entity, text.origin_at(at));
  }
  return out;
}

Result<Value> replace_filter(Interpreter& run, const Value& v, const Arguments& a) {
  ASSIGN_OR_RETURN(const auto given, bind("replace", a, {"old", "new", "count"}));
  ASSIGN_OR_RETURN(const Value old_value, required(given, 0, "replace"));
  ASSIGN_OR_RETURN(const Value new_value, required(given, 1, "replace"));
  ASSIGN_OR_RETURN(const Text text, run.text_of(v));
  ASSIGN_OR_RETURN(const Text old_text, run.text_of(old_value));
  ASSIGN_OR_RETURN(const Text new_text, run.text_of(new_value));
  ASSIGN_OR_RETURN(const std::int64_t count, integer(given, 2, -1));
  RETURN_IF_ERROR(run.charge_bytes(text.size() * 8));
  return run.make_text(replace(text, old_text.bytes(), new_text, count, run.max_text_bytes()));
}

Result<Value> indent_filter(Interpreter& run, const Value& v, const Arguments& a) {
  ASSIGN_OR_RETURN(const auto given, bind("indent", a, {"width", "first", "blank"}));
  Text margin(std::string(4, ' '));
  if (given[0].has_value() && given[0]->as_text() != nullptr) {
    margin = *given[0]->as_text();
  } else {
    ASSIGN_OR_RETURN(const std::int64_t width, integer(given, 0, 4));
    if (width > 1000) return wrong("`indent` by more than 1000");
    margin = Text(std::string(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' '));
  }
  ASSIGN_OR_RETURN(Text text, text_argument(v, "indent"));
  RETURN_IF_ERROR(run.charge_bytes(text.size() * 4));
  text.append("\n", kTemplateOrigin);
  const bool blank = flag(given, 2, false);
  const auto lines = split_lines(text);
  RETURN_IF_ERROR(run.charge(lines.size() * (margin.size() / 256 + 1)));
  Text out;
  if (flag(given, 1, false)) out.append(margin);
  std::size_t at = 0;  // of the line break in front of the line, to keep its origin
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) {
      out.append("\n", text.origin_at(at));
      if (blank || !lines[i].empty()) out.append(margin);
      ++at;
    }
    out.append(lines[i]);
    at += lines[i].size();
    if (out.size() > run.max_text_bytes()) break;
  }
  return run.make_text(std::move(out));
}

constexpr std::array kTextFilters = {
    FilterEntry{"trim", trim_filter},
    FilterEntry{"upper", text_change<upper>},
    FilterEntry{"lower", text_change<lower>},
    FilterEntry{"title", text_change<title_words>},
    FilterEntry{"capitalize", text_change<capitalize>},
    FilterEntry{"string", text_change<same>},
    FilterEntry{"safe", text_change<same>},
    FilterEntry{"escape", text_change<escape>},
    FilterEntry{"e", text_change<escape>},
    FilterEntry{"replace", replace_filter},
    FilterEntry{"indent", indent_filter},
};

Result<Value> default_filter(Interpreter&, const Value& v, const Arguments& a) {
  ASSIGN_OR_RETURN(const auto given, bind("default", a, {"default_value", "boolean"}));
  const bool absent = v.is_undefined() || (flag(given, 1, false) && !truth(v));
  if (!absent) return v;
  return given[0].has_value() ? *given[0] : Value::text("");
}

std::string stripped(const Value& v) {
  return strip(*v.as_text(), Side::kBoth).bytes();
}

std::optional<std::int64_t> parse_integer(std::string text, int base) {
  std::erase(text, '_');
  const char* begin = text.c_str();
  const bool negative = *begin == '-';
  if (*begin == '+' || *begin == '-') ++begin;
  const std::string_view digits(begin);
  if (digits.size() > 2 && digits[0] == '0') {
    const char mark = static_cast<char>(digits[1] | 0x20);
    if ((mark == 'x' && base == 16) || (mark == 'o' && base == 8) || (mark == 'b' && base == 2))
      begin += 2;
  }
  std::int64_t number = 0;
  const char* end = text.c_str() + text.size();
  const std::string signed_digits = (negative ? "-" : "") + std::string(begin);
  if (begin == end || !std::isalnum(static_cast<unsigned char>(*begin))) return std::nullopt;
  const auto parsed = std::from_chars(signed_digits.data(),
                                      signed_digits.data() + signed_digits.size(), number, base);
  if (parsed.ec != std::errc() || parsed.ptr != signed_digits.data() + signed_digits.size()) {
    return std::nullopt;
  }
  return number;
}

std::optional<double> parse_real(const std::string& text) {
  if (text.empty() || text.size() > 400 || text.find_first_of("xXpP(") != std::string::npos) {
    return std::nullopt;
  }
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (end != text.c_str() + text.size()) return std::nullopt;
  return number;
}

std::optional<std::int64_t> truncated(double number) {
  if (!std::isfinite(number) || std::fabs(number) >= 9.2e18) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

Result<Value> int_filter(Interpreter&, const Value& v, const Arguments& a) {
  ASSIGN_OR_RETURN(const auto given, bind("int", a, {"default", "base"}));
  ASSIGN_OR_RETURN(const std::int64_t base, integer(given, 1, 10));
  if (base < 2 || base > 36) return wrong("`int` with a base beyond 2 to 36");
  const Value otherwise = given[0].has_value() ? *given[0] : Value::integer(0);
  std::optional<std::int64_t> number;
  if (v.is_undefined()) return wrong("`int` of an undefined value");
  if (v.is_integral()) return Value::integer(v.to_integer());
  if (v.as<Float>() != nullptr) number = truncated(v.to_double());
  if (v.as_text() != nullptr && v.as_text()->size() < 400) {
    number = parse_integer(stripped(v), static_cast<int>(base));
    if (!number.has_value()) {
      const auto real = parse_real(stripped(v));
      if (real.has_value()) number = truncated(*real);
    }
  }
  return number.has_value() ? Value::integer(*number) : otherwise;
}

Result<Value> float_filter(Interpreter&, const Value& v, const Arguments& a) {
  ASSIGN_OR_RETURN(const auto given, bind("float", a, {"default"}));
  if (v.is_undefined()) return wrong("`float` of an undefined value");
  if (v.is_number()) return Value::real(v.to_double());
  if (v.as_text() != nullptr && v.as_text()->size() < 400) {
    const auto number = parse_real(stripped(v));
    if (number.has_value()) return Value::real(*number);
  }
  return given[0].has_value() ? *given[0] : Value::real(0.0);
}

Result<Value> abs_filter(Interpreter& run, const Value& v, const Arguments& a) {
  ASSIGN_OR_RETURN(const auto given, bind("abs", a, {}));
  if (!v.is_number()) return wrong(str_cat("`abs` of a `", type_name(v), "`"));
  if (!v.is_integral()) return Value::real(std::fabs(v.to_double()));
  if (v.to_integer() >= 0) return Value::integer(v.to_integer());
  return run.binary(Operator::kSubtract, Value::integer(0), v);
}

Result<Value> round_filter(Interpreter&, const Value& v, const Arguments& a) {
  ASSIGN_OR_RETURN(const auto given, bind("round", a, {"precision", "method"}));
  ASSIGN_OR_RETURN(const std::int64_t precision, integer(given, 0, 0));
  if (!v.is_number()) return wrong(str_cat("`round` of a `", type_name(v), "`"));
  if (precision < 0 || precision > 15)
    return wrong("`round` to less than 0 or more than 15 digits");
  std::string method = "common";
  if (given[1].has_value()) method = to_text(*given[1]).bytes();
  const double scale = std::pow(10.0, static_cast<double>(precision));
  if (method == "ceil") return Value::real(std::ceil(v.to_double() * scale) / scale);
  if (method == "floor") return Value::real(std::floor(v.to_double() * scale) / scale);
  if (method != "common") return wrong("`round` knows common, ceil and floor");
  if (v.is_integral()) return Value::integer(v.to_integer());
  std::array<char, 512> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.*f", static_cast<int>(precision), v.to_double());
  return Value::real(std::strtod(buffer.data(), nullptr));
}

Result<Value> json_filter(Interpreter& run, const Value& v, const Arguments& a) {
  ASSIGN_OR_RETURN(const auto given,
                   bind("tojson", a, {"ensure_ascii", "indent", "separators", "sort_keys"}));
  JsonStyle style;
  style.ascii_only = flag(given, 0, false);
  style.sort_keys = flag(given, 3, false);
  if (given[1].has_value() && !given[1]->is_none()) {
    style.is_multi_line = true;
    style.item_separator = ",";
    if (const Text* margin = given[1]->as_text()) {
      style.indent = margin->bytes();
    } else {
      ASSIGN_OR_RETURN(const std::int64_t width, integer(given, 1, 0));
      style.indent.assign(static_cast<std::size_t>(std::clamp<std::int64_t>(width, 0, 64)), ' ');
    }
  }
  if (given[2].has_value() && !given[2]->is_none()) {
    ASSIGN_OR_RETURN(const auto pair, run.items_of(*given[2]));
    if (pair->items.size() != 2) return wrong("`tojson` needs two separators");
    style.item_separator = to_text(pair->items[0]).bytes();
    style.key_separator = to_text(pair->items[1]).bytes();
  }
  RETURN_IF_ERROR(run.charge(v.weight()));
  ASSIGN_OR_RETURN(Text json, to_json(v, style, run.max_text_bytes()));
  return run.make_text(std::move(json));
}

constexpr std::array kValueFilters = {
    FilterEntry{"default", default_filter}, FilterEntry{"d", default_filter},
    FilterEntry{"int", int_filter},         FilterEntry{"float", float_filter},
    FilterEntry{"abs", abs_filter},         FilterEntry{"round", round_filter},
    FilterEntry{"tojson", json_filter},
};

}  // namespace

std::span<const FilterEntry> text_filters() {
  return kTextFilters;
}
std::span<const FilterEntry> value_filters() {
  return kValueFilters;
}

FilterFunction find_filter(std::string_view name) {
  for (const auto table :
       {text_filters(), value_filters(), sequence_filters(), selection_filters()}) {
    const auto found = std::find_if(table.begin(), table.end(),
                                    [&](const FilterEntry& entry) { return entry.first == name; });
    if (found != table.end()) return found->second;
  }
  return nullptr;
}

}  // namespace refrain::text::jinja
