// Filters of lists and mappings. Pure functions of their arguments.
#include <algorithm>
#include <array>
#include <charconv>

#include "text/jinja_arguments.h"
#include "text/jinja_filters.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_parser.h"
#include "text/jinja_string.h"

namespace refrain::text::jinja {

Result<Value> follow(Interpreter& run, const Value& item, const Value& path) {
  if (path.is_integral()) return run.item(item, path);
  ASSIGN_OR_RETURN(const Text names, text_argument(path, "attribute"));
  Value at = item;
  const std::string_view dot = ".";
  for (const Text& name : split(names, &dot, -1)) {
    std::int64_t number = 0;
    const std::string& bytes = name.bytes();
    const auto parsed = std::from_chars(bytes.data(), bytes.data() + bytes.size(), number);
    const bool is_number = !bytes.empty() && parsed.ec == std::errc() &&
                           parsed.ptr == bytes.data() + bytes.size() && bytes[0] != '-';
    ASSIGN_OR_RETURN(at, run.item(at, is_number ? Value::integer(number) : Value::text(name)));
  }
  return at;
}

namespace {

// What items are ordered by: an attribute of them, letters without case unless asked for.
struct SortKey {
  Value path;  // undefined: the item itself
  bool case_sensitive = false;

  Result<Value> of(Interpreter& run, const Value& item) const {
    Value key = item;
    if (const Text* names = path.as_text();
        names != nullptr && names->bytes().find(',') != std::string::npos) {
      const std::string_view comma = ",";
      Values keys;
      for (const Text& name : split(*names, &comma, -1)) {
        ASSIGN_OR_RETURN(Value one, follow(run, item, Value::text(name)));
        keys.push_back(fold(one));
      }
      return make_list(std::move(keys));
    }
    if (!path.is_undefined() && !path.is_none()) {
      ASSIGN_OR_RETURN(key, follow(run, item, path));
    }
    return fold(key);
  }
  Value fold(const Value& key) const {
    if (case_sensitive || key.as_text() == nullptr) return key;
    return Value::text(change_case(*key.as_text(), LetterCase::kLower));
  }
};

// Stable merge sort of `items` by `keys`, descending if `reverse`; the first comparison that has
// no answer is the error.
Result<Values> sorted(Interpreter& run, const Values& items, const Values& keys, bool reverse) {
  std::vector<std::size_t> order(items.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::optional<Error> failure;
  const auto before = [&](std::size_t left, std::size_t right) {
    if (failure.has_value()) return false;
    const Result<void> paid = run.charge(std::min(keys[left].weight(), keys[right].weight()));
    const Result<int> result = compare(keys[left], keys[right]);
    if (!paid.ok() || !result.ok()) {
      failure = !paid.ok() ? paid.error() : result.error();
      return false;
    }
    return reverse ? *result > 0 : *result < 0;
  };
  std::stable_sort(order.begin(), order.end(), before);
  if (failure.has_value()) return *failure;
  Values out;
  out.reserve(items.size());
  for (const std::size_t at : order) out.push_back(items[at]);
  return out;
}

Result<Value> sort_filter(Interpreter& run, const Value& v, const Arguments& a) {
  ASSIGN_OR_RETURN(const auto given, bind("sort", a, {"reverse", "case_sensitive", "attribute"}));
  ASSIGN_OR_RETURN(const auto items, run.items_of(v));
  const SortKey key{given[2].value_or(Value()), flag(given, 1, false)};
  Values keys;
  for (const Value& item : items->items) {
    ASSIGN_OR_RETURN(Value one, key.of(run, item));
    keys.push_back(std::move(one));
  }
  ASSIGN_OR_RETURN(Values out, sorted(run, items->items, keys, flag(given, 0, false)));
  return make_list(std::move(out));
}

Result<Value> dictsort_filter(Interpreter& run, const Value& v, const Arguments& a) {
  ASSIGN_OR_RETURN(const auto given, bind("dictsort", a, {"case_sensitive", "by", "reverse"}));
  const Dict* dict = v.as_dict();
  if (dict == nullptr) return wrong("`dictsort` needs a mapping");
  const SortKey key{Value(), flag(given, 0, false)};
  std::string by = "key";
  if (given[1].has_value()) by = to_text(*given[1]).bytes();
  if (by != "key" && by != "value") return wrong("`dictsort` is by key or by value");
  Values pairs;
  Values keys;
  for (const auto& [name, value] : dict->entries) {
    ASSIGN_OR_RETURN(Value pair, make_list({name, value}, true));
    pairs.push_back(std::move(pair));
    keys.push_back(key.fold(by == "key" ? name : value));
  }
  ASSIGN_OR_RETURN(Values out, sorted(run, pairs, keys, flag(given, 2, false)));
  return make_list(std::move(out));
}

template <bool largest>
Result<Value> extreme_filter(Interpreter& run, const Value& v, const Arguments& a) {
  ASSIGN_OR_RETURN(const auto given, bind("extreme", a, {"case_sensitive", "attribute"}));
  ASSIGN_OR_RETURN(const auto items, run.items_of(v));
  const SortKey key{given[1].value_or(Value()), flag(given, 0, false)};
  Value best = Value::undefined("an empty sequence has no smallest or largest item");
  Value best_key;
  for (std::size_t i = 0; i < items->items.size(); ++i) {
    ASSIGN_OR_RETURN(Value one, key.of(run, items->items[i]));
    if (i > 0) {
      ASSIGN_OR_RETURN(const bool better,
                       run.compares(largest ? Operator::kGreater : Operator::kLess, one, best_key));
      if (!better) continue;
    }
    best = items->items[i];
    best_key = std::move(one);
  }
  return best;
}

Result<Value> unique_filter(Interpreter& run, const Value& v, const Arguments& a) {
  ASSIGN_OR_RETURN(const auto given, bind("unique", a, {"case_sensitive", "attribute"}));
  ASSIGN_OR_RETURN(const auto items, run.items_of(v));
  const SortKey key{given[1].value_or(Value()), flag(given, 0, false)};
  Dict seen;
  Values out;
  for (const Value& item : items->items) {
    ASSIGN_OR_RETURN(const Value one, key.of(run, item));
    if (is_hashable(one) && seen.find(one) != nullptr) continue;
    RETURN_IF_ERROR(run.put(seen, one, Value::none()));
    out.push_back(item);
  }
  return make_list(std::move(out));
}

Result<Value> length_filter(Interpreter& run, const Value& v, const Arguments& a) {
  ASSIGN_OR_RETURN(const auto given, bind("length", a, {}));
  if (const Text* text = v.as_text()) {
    RETURN_IF_ERROR(run.charge_bytes(text->size()));
    return Value::integer(static_cast<std::int64_t>(character_count(text->bytes())));
  }
  if (const List* list = v.as_list())
    return Value::integer(static_cast<std::int64_t>(list->items.size()));
  if (const Dict* dict = v.as_dict())
    return Value::integer(static_cast<std::int64_t>(dict->entries.size()));
  if (const Loop* loop = v.as_loop())
    return Value::integer(static_cast<std::int64_t>(loop->items->items.size()));
  if (v.is_undefined()) return Value::integer(0);
  return wrong(str_cat("a `", type_name(v), "` has no length"));
}

Result<Value> join_filter(Interpreter& run, const Value& v, const Arguments& a) {
  ASSIGN_OR_RETURN(const auto given, bind("join", a, {"d", "attribute"}));
  ASSIGN_OR_RETURN(const auto items, run.items_of(v));
  Text between;
  if (given[0].has_value()) {
    ASSIGN_OR_RETURN(between, run.text_of(*given[0]));
  }
  Text out;
  for (std::size_t i = 0; i < items->items.size(); ++i) {
    Value item = items->items[i];
    if (given[1].has_value()) {
      ASSIGN_OR_RETURN(item, follow(run, item, *given[1]));
    }
    ASSIGN_OR_RETURN(const Text piece, run.text_of(item));
    if (i > 0) out.append(between);
    out.append(piece);
    if (out.size() > run.max_text_bytes()) break;
  }
  return run.make_text(std::move(out));
}

template <bool from_end>
Result<Value> end_filter(Interpreter& run, const Value& v, const Arguments& a) {
  ASSIGN_OR_RETURN(const auto given, bind(from_end ? "last" : "first", a, {}));
  if (v.as_text() != nullptr && !v.as_text()->empty()) {
    return run.item(v, Value::integer(from_end ? -1 : 0));
  }
  ASSIGN_OR_RETURN(const auto items, run.items_of(v));
  if (items->items.empty()) return Value::undefined("an empty sequence has no first or last item");
  return from_end ? items->items.back() : items->items.front();
}

Result<Value> list_filter(Interpreter& run, const Value& v, const Arguments& a) {
  ASSIGN_OR_RETURN(const auto given, bind("list", a, {}));
  ASSIGN_OR_RETURN(const auto items, run.items_of(v));
  return make_list(items->items);
}

Result<Value> reverse_filter(Interpreter& run, const Value& v, const Arguments& a) {
  ASSIGN_OR_RETURN(const auto given, bind("reverse", a, {}));
  if (v.as_text() != nullptr) {
    return run.slice(v, Value::none(), Value::none(), Value::integer(-1));
  }
  ASSIGN_OR_RETURN(const auto items, run.items_of(v));
  return make_list(Values(items->items.rbegin(), items->items.rend()));
}

Result<Value> items_filter(Interpreter& run, const Value& v, const Arguments& a) {
  ASSIGN_OR_RETURN(const auto given, bind("items", a, {}));
  if (v.is_undefined()) return make_list({});
  if (v.as_dict() == nullptr) return wrong("`items` needs a mapping");
  ASSIGN_OR_RETURN(const Value method, run.attribute(v, "items"));
  return run.call(method, {});
}

Result<Value> sum_filter(Interpreter& run, const Value& v, const Arguments& a) {
  ASSIGN_OR_RETURN(const auto given, bind("sum", a, {"attribute", "start"}));
  ASSIGN_OR_RETURN(const auto items, run.items_of(v));
  Value total = given[1].has_value() ? *given[1] : Value::integer(0);
  for (const Value& item : items->items) {
    Value one = item;
    if (given[0].has_value() && !given[0]->is_none()) {
      ASSIGN_OR_RETURN(one, follow(run, item, *given[0]));
    }
    ASSIGN_OR_RETURN(total, run.binary(Operator::kAdd, total, one));
  }
  return total;
}

Result<Value> batch_filter(Interpreter& run, const Value& v, const Arguments& a) {
  ASSIGN_OR_RETURN(const auto given, bind("batch", a, {"linecount", "fill_with"}));
  ASSIGN_OR_RETURN(const std::int64_t size, integer(given, 0, 0));
  ASSIGN_OR_RETURN(const auto items, run.items_of(v));
  if (size < 1 || size > kMaxRange) return wrong("`batch` needs a size from 1");
  Values out;
  Values row;
  const auto flush = [&]() -> Result<void> {
    ASSIGN_OR_RETURN(Value list, make_list(std::exchange(row, {})));
    out.push_back(std::move(list));
    return {};
  };
  for (const Value& item : items->items) {
    if (static_cast<std::int64_t>(row.size()) == size) RETURN_IF_ERROR(flush());
    row.push_back(item);
  }
  if (!row.empty()) {
    const bool fill = given[1].has_value() && !given[1]->is_none();
    RETURN_IF_ERROR(run.charge(static_cast<std::size_t>(size)));
    while (fill && static_cast<std::int64_t>(row.size()) < size) row.push_back(*given[1]);
    RETURN_IF_ERROR(flush());
  }
  return make_list(std::move(out));
}

Result<Value> attr_filter(Interpreter& run, const Value& v, const Arguments& a) {
  ASSIGN_OR_RETURN(const auto given, bind("attr", a, {"name"}));
  ASSIGN_OR_RETURN(const Value value, required(given, 0, "attr"));
  ASSIGN_OR_RETURN(const Text name, text_argument(value, "attr"));
  return run.attribute(v, name.bytes());
}

constexpr std::array kSequenceFilters = {
    FilterEntry{"length", length_filter},     FilterEntry{"count", length_filter},
    FilterEntry{"join", join_filter},         FilterEntry{"first", end_filter<false>},
    FilterEntry{"last", end_filter<true>},    FilterEntry{"list", list_filter},
    FilterEntry{"reverse", reverse_filter},   FilterEntry{"sort", sort_filter},
    FilterEntry{"dictsort", dictsort_filter}, FilterEntry{"unique", unique_filter},
    FilterEntry{"items", items_filter},       FilterEntry{"min", extreme_filter<false>},
    FilterEntry{"max", extreme_filter<true>}, FilterEntry{"sum", sum_filter},
    FilterEntry{"batch", batch_filter},       FilterEntry{"attr", attr_filter},
};

// map(attribute="x", default=...) and map("filter", arguments ...)
Result<Value> map_one(Interpreter& run, const Value& item, const Arguments& a) {
  const Interpreter::Depth depth(run);  // map("map", "map", ...) nests
  RETURN_IF_ERROR(depth.check());
  RETURN_IF_ERROR(run.charge(a.positional.size() + a.keywords.size()));
  if (a.positional.empty()) {
    ASSIGN_OR_RETURN(const auto given, bind("map", a, {"attribute", "default"}));
    ASSIGN_OR_RETURN(const Value path, required(given, 0, "map"));
    ASSIGN_OR_RETURN(Value found, follow(run, item, path));
    if (found.is_undefined() && given[1].has_value()) return *given[1];
    return found;
  }
  ASSIGN_OR_RETURN(const Text name, text_argument(a.positional[0], "map"));
  const FilterFunction filter = find_filter(name.bytes());
  if (filter == nullptr) return wrong("`map` with an unknown filter");
  return filter(run, item,
                Arguments{Values(a.positional.begin() + 1, a.positional.end()), a.keywords});
}

Result<Value> map_filter(Interpreter& run, const Value& v, const Arguments& a) {
  if (!truth(v))
    return make_list({});  // Jinja2 does not look at false values, be they lists or not
  ASSIGN_OR_RETURN(const auto items, run.items_of(v));
  Values out;
  for (const Value& item : items->items) {
    ASSIGN_OR_RETURN(Value one, map_one(run, item, a));
    out.push_back(std::move(one));
  }
  return make_list(std::move(out));
}

// select("test", arguments ...), or by truth; selectattr("path", "test", arguments ...).
template <bool keep, bool by_attribute>
Result<Value> select_filter(Interpreter& run, const Value& v, const Arguments& a) {
  if (!truth(v)) return make_list({});
  ASSIGN_OR_RETURN(const auto items, run.items_of(v));
  const std::size_t skip = by_attribute ? 1 : 0;
  if (a.positional.size() < skip) return wrong("`selectattr` needs an attribute");
  TestFunction test = nullptr;
  Arguments rest;
  if (a.positional.size() > skip) {
    ASSIGN_OR_RETURN(const Text name, text_argument(a.positional[skip], "select"));
    test = find_test(name.bytes());
    if (test == nullptr) return wrong("`select` with an unknown test");
    rest.positional.assign(a.positional.begin() + static_cast<std::ptrdiff_t>(skip) + 1,
                           a.positional.end());
    rest.keywords = a.keywords;
  }
  Values out;
  for (const Value& item : items->items) {
    Value subject = item;
    if (by_attribute) {
      ASSIGN_OR_RETURN(subject, follow(run, item, a.positional[0]));
    }
    bool holds = truth(subject);
    if (test != nullptr) {
      ASSIGN_OR_RETURN(holds, test(run, subject, rest));
    }
    if (holds == keep) out.push_back(item);
  }
  return make_list(std::move(out));
}

constexpr std::array kSelectionFilters = {
    FilterEntry{"map", map_filter},
    FilterEntry{"select", select_filter<true, false>},
    FilterEntry{"reject", select_filter<false, false>},
    FilterEntry{"selectattr", select_filter<true, true>},
    FilterEntry{"rejectattr", select_filter<false, true>},
};

}  // namespace

std::span<const FilterEntry> sequence_filters() {
  return kSequenceFilters;
}
std::span<const FilterEntry> selection_filters() {
  return kSelectionFilters;
}

}  // namespace refrain::text::jinja
