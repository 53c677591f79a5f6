// Methods of str, dict, list and loop. Those that would change a list or dict are refused, as in
// Jinja2's immutable sandbox. One render, one thread.
#include <algorithm>
#include <array>

#include "text/jinja_arguments.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_string.h"

namespace refrain::text::jinja {
namespace {

struct MethodCall {
  Interpreter& run;
  const Value& self;
  std::string_view name;
  const Arguments& arguments;
  const Text& text() const { return *self.as_text(); }
};
using Function = Result<Value> (*)(const MethodCall&);
using Entry = std::pair<std::string_view, Function>;

Result<Value> list_of(Interpreter& run, std::vector<Text> pieces) {
  RETURN_IF_ERROR(run.charge(pieces.size()));
  Values items;
  items.reserve(pieces.size());
  for (Text& piece : pieces) items.push_back(Value::text(std::move(piece)));
  return make_list(std::move(items));
}

Result<Value> do_strip(const MethodCall& c) {
  ASSIGN_OR_RETURN(const auto given, bind(c.name, c.arguments, {"chars"}));
  const Side side = c.name == "strip"    ? Side::kBoth
                    : c.name == "lstrip" ? Side::kLeft
                                         : Side::kRight;
  if (!given[0].has_value() || given[0]->is_none()) return c.run.make_text(strip(c.text(), side));
  ASSIGN_OR_RETURN(const Text chars, text_argument(*given[0], c.name));
  const std::string_view view = chars.bytes();
  RETURN_IF_ERROR(c.run.charge(c.text().size() * view.size() / 256));
  return c.run.make_text(strip(c.text(), side, &view));
}

Result<Value> do_split(const MethodCall& c) {
  ASSIGN_OR_RETURN(const auto given, bind(c.name, c.arguments, {"sep", "maxsplit"}));
  ASSIGN_OR_RETURN(const std::int64_t limit, integer(given, 1, -1));
  RETURN_IF_ERROR(c.run.charge_bytes(c.text().size()));
  const Side side = c.name == "rsplit" ? Side::kRight : Side::kLeft;
  if (!given[0].has_value() || given[0]->is_none()) {
    RETURN_IF_ERROR(c.run.charge(c.text().size() / 16));
    return list_of(c.run, split(c.text(), nullptr, limit, side));
  }
  ASSIGN_OR_RETURN(const Text separator, text_argument(*given[0], c.name));
  if (separator.empty()) return wrong("`split` with an empty separator");
  RETURN_IF_ERROR(c.run.charge(c.text().size() / separator.size() / 16));
  const std::string_view view = separator.bytes();
  return list_of(c.run, split(c.text(), &view, limit, side));
}

Result<Value> do_splitlines(const MethodCall& c) {
  ASSIGN_OR_RETURN(const auto given, bind(c.name, c.arguments, {"keepends"}));
  RETURN_IF_ERROR(c.run.charge(c.text().size() / 16 + 1));
  return list_of(c.run, split_lines(c.text(), flag(given, 0, false)));
}

Result<Value> do_replace(const MethodCall& c) {
  ASSIGN_OR_RETURN(const auto given, bind(c.name, c.arguments, {"old", "new", "count"}));
  ASSIGN_OR_RETURN(const Value old_value, required(given, 0, c.name));
  ASSIGN_OR_RETURN(const Value new_value, required(given, 1, c.name));
  ASSIGN_OR_RETURN(const Text old_text, text_argument(old_value, c.name));
  ASSIGN_OR_RETURN(const Text new_text, text_argument(new_value, c.name));
  ASSIGN_OR_RETURN(const std::int64_t count, integer(given, 2, -1));
  RETURN_IF_ERROR(c.run.charge_bytes(c.text().size() * 8));
  return c.run.make_text(
      replace(c.text(), old_text.bytes(), new_text, count, c.run.max_text_bytes()));
}

// startswith, endswith: a string or a tuple of strings.
Result<Value> do_affix(const MethodCall& c) {
  ASSIGN_OR_RETURN(const auto given, bind(c.name, c.arguments, {"affix"}));
  ASSIGN_OR_RETURN(const Value affix, required(given, 0, c.name));
  const List* list = affix.as_list();
  const Values affixes = list != nullptr && list->is_tuple ? list->items : Values{affix};
  for (const Value& one : affixes) {
    ASSIGN_OR_RETURN(const Text text, text_argument(one, c.name));
    RETURN_IF_ERROR(c.run.charge_bytes(text.size()));
    const std::string& bytes = c.text().bytes();
    if (c.name == "startswith" ? bytes.starts_with(text.bytes()) : bytes.ends_with(text.bytes())) {
      return Value::boolean(true);
    }
  }
  return Value::boolean(false);
}

Result<Value> do_remove_affix(const MethodCall& c) {
  ASSIGN_OR_RETURN(const auto given, bind(c.name, c.arguments, {"affix"}));
  ASSIGN_OR_RETURN(const Value value, required(given, 0, c.name));
  ASSIGN_OR_RETURN(const Text affix, text_argument(value, c.name));
  const Text& text = c.text();
  if (c.name == "removeprefix" && text.bytes().starts_with(affix.bytes())) {
    return c.run.make_text(text.slice(affix.size(), text.size()));
  }
  if (c.name == "removesuffix" && text.bytes().ends_with(affix.bytes())) {
    return c.run.make_text(text.slice(0, text.size() - affix.size()));
  }
  return c.self;
}

Result<Value> do_case(const MethodCall& c) {
  ASSIGN_OR_RETURN(const auto given, bind(c.name, c.arguments, {}));
  RETURN_IF_ERROR(c.run.charge_bytes(c.text().size() * 16));
  if (c.name == "upper") return c.run.make_text(change_case(c.text(), LetterCase::kUpper));
  if (c.name == "lower") return c.run.make_text(change_case(c.text(), LetterCase::kLower));
  if (c.name == "title") return c.run.make_text(title(c.text()));
  return c.run.make_text(capitalize(c.text()));
}

Result<Value> do_join(const MethodCall& c) {
  ASSIGN_OR_RETURN(const auto given, bind(c.name, c.arguments, {"iterable"}));
  ASSIGN_OR_RETURN(const Value value, required(given, 0, c.name));
  ASSIGN_OR_RETURN(const auto items, c.run.items_of(value));
  Text out;
  for (std::size_t i = 0; i < items->items.size(); ++i) {
    ASSIGN_OR_RETURN(const Text piece, text_argument(items->items[i], c.name));
    if (i > 0) out.append(c.text());
    out.append(piece);
    if (out.size() > c.run.max_text_bytes()) break;
  }
  return c.run.make_text(std::move(out));
}

Result<Value> do_find(const MethodCall& c) {
  ASSIGN_OR_RETURN(const auto given, bind(c.name, c.arguments, {"sub"}));
  ASSIGN_OR_RETURN(const Value value, required(given, 0, c.name));
  ASSIGN_OR_RETURN(const Text part, text_argument(value, c.name));
  RETURN_IF_ERROR(c.run.charge_bytes(c.text().size()));
  const std::string_view bytes = c.text().bytes();
  const bool last = c.name.front() == 'r';
  const std::size_t found = last ? bytes.rfind(part.bytes()) : bytes.find(part.bytes());
  if (found != std::string_view::npos) {
    return Value::integer(static_cast<std::int64_t>(character_count(bytes.substr(0, found))));
  }
  if (c.name.ends_with("index")) return wrong("`index`: the part is not in the string");
  return Value::integer(-1);
}

Result<Value> do_count(const MethodCall& c) {
  ASSIGN_OR_RETURN(const auto given, bind(c.name, c.arguments, {"sub"}));
  ASSIGN_OR_RETURN(const Value value, required(given, 0, c.name));
  ASSIGN_OR_RETURN(const Text part, text_argument(value, c.name));
  const std::string_view bytes = c.text().bytes();
  RETURN_IF_ERROR(c.run.charge_bytes(bytes.size()));
  if (part.empty()) return Value::integer(static_cast<std::int64_t>(character_count(bytes)) + 1);
  std::int64_t count = 0;
  for (std::size_t at = 0; (at = bytes.find(part.bytes(), at)) != std::string_view::npos; ++count) {
    at += part.size();
  }
  return Value::integer(count);
}

Result<Value> do_is_class(const MethodCall& c) {
  ASSIGN_OR_RETURN(const auto given, bind(c.name, c.arguments, {}));
  const std::string_view bytes = c.text().bytes();
  RETURN_IF_ERROR(c.run.charge_bytes(bytes.size() * 8));
  bool seen = false;
  for (std::size_t at = 0; at < bytes.size();) {
    const Character ch = character_at(bytes, at);
    at += ch.length;
    const char32_t code = ch.code_point;
    bool fits = false;
    if (c.name == "isdigit" || c.name == "isnumeric" || c.name == "isdecimal")
      fits = is_digit(code);
    if (c.name == "isalpha") fits = is_alphabetic(code);
    if (c.name == "isalnum") fits = is_alphabetic(code) || is_digit(code);
    if (c.name == "isspace") fits = is_space(code);
    if (c.name == "isupper" || c.name == "islower") {
      const bool upper = c.name == "isupper";
      if (upper ? is_lower(code) : is_upper(code)) return Value::boolean(false);
      seen = seen || (upper ? is_upper(code) : is_lower(code));
      continue;
    }
    if (!fits) return Value::boolean(false);
    seen = true;
  }
  return Value::boolean(seen);
}

constexpr std::array kTextMethods = {Entry{"strip", do_strip},
                                     Entry{"lstrip", do_strip},
                                     Entry{"rstrip", do_strip},
                                     Entry{"split", do_split},
                                     Entry{"rsplit", do_split},
                                     Entry{"splitlines", do_splitlines},
                                     Entry{"replace", do_replace},
                                     Entry{"startswith", do_affix},
                                     Entry{"endswith", do_affix},
                                     Entry{"removeprefix", do_remove_affix},
                                     Entry{"removesuffix", do_remove_affix},
                                     Entry{"upper", do_case},
                                     Entry{"lower", do_case},
                                     Entry{"title", do_case},
                                     Entry{"capitalize", do_case},
                                     Entry{"join", do_join},
                                     Entry{"find", do_find},
                                     Entry{"rfind", do_find},
                                     Entry{"index", do_find},
                                     Entry{"rindex", do_find},
                                     Entry{"count", do_count},
                                     Entry{"isdigit", do_is_class},
                                     Entry{"isnumeric", do_is_class},
                                     Entry{"isdecimal", do_is_class},
                                     Entry{"isalpha", do_is_class},
                                     Entry{"isalnum", do_is_class},
                                     Entry{"isspace", do_is_class},
                                     Entry{"isupper", do_is_class},
                                     Entry{"islower", do_is_class}};

Result<Value> do_entries(const MethodCall& c) {
  ASSIGN_OR_RETURN(const auto given, bind(c.name, c.arguments, {}));
  const Dict& dict = *c.self.as_dict();
  RETURN_IF_ERROR(c.run.charge(dict.entries.size()));
  Values out;
  out.reserve(dict.entries.size());
  for (const auto& [key, value] : dict.entries) {
    if (c.name == "keys") {
      out.push_back(key);
    } else if (c.name == "values") {
      out.push_back(value);
    } else {
      ASSIGN_OR_RETURN(Value pair, make_list({key, value}, true));
      out.push_back(std::move(pair));
    }
  }
  return make_list(std::move(out));
}

Result<Value> do_get(const MethodCall& c) {
  ASSIGN_OR_RETURN(const auto given, bind(c.name, c.arguments, {"key", "default"}));
  ASSIGN_OR_RETURN(const Value key, required(given, 0, c.name));
  if (!is_hashable(key)) return wrong("`get` with a key that cannot be one");
  RETURN_IF_ERROR(c.run.charge(key.as_text() != nullptr ? 1 : c.self.weight()));
  if (const Value* found = c.self.as_dict()->find(key)) return *found;
  return given[1].has_value() ? *given[1] : Value::none();
}

Result<Value> do_copy(const MethodCall& c) {
  ASSIGN_OR_RETURN(const auto given, bind(c.name, c.arguments, {}));
  return c.self;  // lists and dicts never change
}

// A method that would change its object; names it when called.
Result<Value> do_refuse(const MethodCall& c) {
  return wrong(str_cat("`", c.name, "` would change a ", type_name(c.self),
                       "; templates may not change lists and mappings"));
}

constexpr std::array kDictMethods = {Entry{"items", do_entries},  Entry{"keys", do_entries},
                                     Entry{"values", do_entries}, Entry{"get", do_get},
                                     Entry{"copy", do_copy},      Entry{"pop", do_refuse},
                                     Entry{"update", do_refuse},  Entry{"setdefault", do_refuse},
                                     Entry{"clear", do_refuse},   Entry{"popitem", do_refuse}};

Result<Value> do_list_search(const MethodCall& c) {
  ASSIGN_OR_RETURN(const auto given, bind(c.name, c.arguments, {"value"}));
  ASSIGN_OR_RETURN(const Value wanted, required(given, 0, c.name));
  RETURN_IF_ERROR(c.run.charge(c.self.weight()));
  const Values& items = c.self.as_list()->items;
  if (c.name == "count") {
    return Value::integer(std::count_if(items.begin(), items.end(),
                                        [&](const Value& item) { return equal(item, wanted); }));
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (equal(items[i], wanted)) return Value::integer(static_cast<std::int64_t>(i));
  }
  return wrong("`index`: the value is not in the list");
}

constexpr std::array kListMethods = {
    Entry{"index", do_list_search}, Entry{"count", do_list_search}, Entry{"copy", do_copy},
    Entry{"append", do_refuse},     Entry{"extend", do_refuse},     Entry{"insert", do_refuse},
    Entry{"remove", do_refuse},     Entry{"pop", do_refuse},        Entry{"clear", do_refuse},
    Entry{"reverse", do_refuse},    Entry{"sort", do_refuse}};

Result<Value> do_cycle(const MethodCall& c) {
  const Values& choices = c.arguments.positional;
  if (choices.empty()) return wrong("`cycle` needs arguments");
  return choices[c.self.as_loop()->index % choices.size()];
}

constexpr std::array kLoopMethods = {Entry{"cycle", do_cycle}};

template <typename Table>
Function look_up(const Table& table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const Entry& entry) { return entry.first == name; });
  return found != table.end() ? found->second : nullptr;
}

Function function_of(const Value& subject, std::string_view name) {
  if (subject.as_text() != nullptr) return look_up(kTextMethods, name);
  if (subject.as_dict() != nullptr) return look_up(kDictMethods, name);
  if (subject.as_list() != nullptr) return look_up(kListMethods, name);
  if (subject.as_loop() != nullptr) return look_up(kLoopMethods, name);
  return nullptr;
}

}  // namespace

Value find_method(const Value& subject, std::string_view name) {
  if (function_of(subject, name) == nullptr) {
    return Value::undefined(str_cat("`", type_name(subject), "` has no attribute `",
                                    to_valid_utf8(name.substr(0, 80)), "`"));
  }
  return Value(std::make_shared<const Method>(Method{subject, std::string(name)}));
}

Result<Value> call_method(Interpreter& interpreter, const Method& method,
                          const Arguments& arguments) {
  const Function function = function_of(method.self, method.name);
  return function(MethodCall{interpreter, method.self, method.name, arguments});
}

}  // namespace refrain::text::jinja
