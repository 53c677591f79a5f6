// Values: construction, truth, equality and order as in Python. Any thread.
#include "text/jinja_value.h"

#include <algorithm>
#include <limits>

#include "base/str.h"

namespace refrain::text::jinja {

Value Value::undefined(std::string reason) {
  return Value(Undefined{std::make_shared<const std::string>(std::move(reason))});
}

std::int64_t Value::to_integer() const {
  if (const auto* flag = as<bool>()) return *flag ? 1 : 0;
  if (const auto* number = as<std::int64_t>()) return *number;
  return 0;
}

double Value::to_double() const {
  if (const auto* number = as<Float>()) return number->number;
  return static_cast<double>(to_integer());
}

std::uint32_t Value::depth() const {
  if (const List* list = as_list()) return list->depth;
  if (const Dict* dict = as_dict()) return dict->depth;
  if (const Loop* loop = as_loop()) return loop->items->depth + 1;
  if (const Method* method = as_method()) return method->self.depth() + 1;
  return 0;
}

std::uint32_t Value::weight() const {
  if (const Text* text = as_text()) return static_cast<std::uint32_t>(text->size() / 256 + 1);
  if (const List* list = as_list()) return list->weight;
  if (const Dict* dict = as_dict()) return dict->weight;
  if (const Loop* loop = as_loop()) return loop->items->weight;
  if (const Method* method = as_method()) return method->self.weight();
  return 1;
}

const Value* Dict::find(std::string_view key) const {
  const auto found = index.find(std::string(key));
  return found == index.end() ? nullptr : &entries[found->second].second;
}

const Value* Dict::find(const Value& key) const {
  if (const Text* text = key.as_text()) return find(std::string_view(text->bytes()));
  for (const auto& [known, value] : entries) {
    if (known.as_text() == nullptr && equal(known, key)) return &value;
  }
  return nullptr;
}

void Dict::set(const Value& key, Value value) {
  if (const Value* found = find(key)) {
    *const_cast<Value*>(found) = std::move(value);  // NOLINT: `entries` is ours
    return;
  }
  if (const Text* text = key.as_text()) index.emplace(text->bytes(), entries.size());
  entries.emplace_back(key, std::move(value));
}

namespace {

Error too_deep() {
  return Error{Code::kInvalidArgument,
               str_cat("values nest more than ", kMaxValueDepth, " levels deep")};
}

std::uint32_t saturate(std::uint64_t weight) {
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(weight, std::numeric_limits<std::uint32_t>::max()));
}

bool equal_dicts(const Dict& left, const Dict& right) {
  if (left.entries.size() != right.entries.size()) return false;
  return std::all_of(left.entries.begin(), left.entries.end(), [&](const auto& entry) {
    const Value* other = right.find(entry.first);
    return other != nullptr && equal(entry.second, *other);
  });
}

Result<int> compare_lists(const List& left, const List& right) {
  const std::size_t shared = std::min(left.items.size(), right.items.size());
  for (std::size_t i = 0; i < shared; ++i) {
    if (!equal(left.items[i], right.items[i])) return compare(left.items[i], right.items[i]);
  }
  if (left.items.size() == right.items.size()) return 0;
  return left.items.size() < right.items.size() ? -1 : 1;
}

template <typename T>
int three_way(const T& left, const T& right) {
  return left < right ? -1 : right < left ? 1 : 0;
}

}  // namespace

Result<Value> make_list(Values items, bool is_tuple) {
  std::uint32_t depth = 1;
  std::uint64_t weight = 1;
  for (const Value& item : items) {
    depth = std::max(depth, item.depth() + 1);
    weight += item.weight();
  }
  if (depth > kMaxValueDepth) return too_deep();
  return Value(
      std::make_shared<const List>(List{std::move(items), is_tuple, depth, saturate(weight)}));
}

Result<Value> make_dict(Dict dict) {
  dict.depth = 1;
  std::uint64_t weight = 1;
  for (const auto& [key, value] : dict.entries) {
    dict.depth = std::max({dict.depth, value.depth() + 1, key.depth() + 1});
    weight += key.weight();
    weight += value.weight();
  }
  dict.weight = saturate(weight);
  if (dict.depth > kMaxValueDepth) return too_deep();
  return Value(std::make_shared<const Dict>(std::move(dict)));
}

bool truth(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (value.is_integral()) return value.to_integer() != 0;
  if (const auto* number = value.as<Float>()) return number->number != 0.0;
  if (const Text* text = value.as_text()) return !text->empty();
  if (const List* list = value.as_list()) return !list->items.empty();
  if (const Dict* dict = value.as_dict()) return !dict->entries.empty();
  if (const Loop* loop = value.as_loop()) return !loop->items->items.empty();
  return true;
}

bool equal(const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) {
    if (left.is_integral() && right.is_integral()) return left.to_integer() == right.to_integer();
    return left.to_double() == right.to_double();
  }
  if (left.state().index() != right.state().index()) return false;
  if (left.is_undefined() || left.is_none()) return true;
  if (const Text* text = left.as_text()) return text->bytes() == right.as_text()->bytes();
  if (const List* list = left.as_list()) {
    const List* other = right.as_list();
    return list->is_tuple == other->is_tuple &&
           std::equal(list->items.begin(), list->items.end(), other->items.begin(),
                      other->items.end(), equal);
  }
  if (const Dict* dict = left.as_dict()) return equal_dicts(*dict, *right.as_dict());
  if (left.as_namespace() != nullptr) return left.as_namespace() == right.as_namespace();
  if (left.as_macro() != nullptr) return left.as_macro() == right.as_macro();
  if (left.as_loop() != nullptr) return left.as_loop() == right.as_loop();
  if (const Method* method = left.as_method()) {
    return method->name == right.as_method()->name && equal(method->self, right.as_method()->self);
  }
  return *left.as<Builtin>() == *right.as<Builtin>();
}

Result<int> compare(const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) {
    if (left.is_integral() && right.is_integral()) {
      return three_way(left.to_integer(), right.to_integer());
    }
    return three_way(left.to_double(), right.to_double());
  }
  if (left.as_text() != nullptr && right.as_text() != nullptr) {
    return left.as_text()->bytes().compare(right.as_text()->bytes());  // UTF-8 keeps the order
  }
  if (left.as_list() != nullptr && right.as_list() != nullptr &&
      left.as_list()->is_tuple == right.as_list()->is_tuple) {
    return compare_lists(*left.as_list(), *right.as_list());
  }
  return Error{Code::kInvalidArgument, str_cat("`", type_name(left), "` and `", type_name(right),
                                               "` have no order between them")};
}

bool is_hashable(const Value& value) {
  if (value.as_dict() != nullptr) return false;
  const List* list = value.as_list();
  if (list == nullptr) return true;
  return list->is_tuple && std::all_of(list->items.begin(), list->items.end(), is_hashable);
}

std::string_view type_name(const Value& value) {
  static constexpr std::string_view kNames[] = {
      "Undefined", "NoneType",  "bool",  "int",         "float",  "str",     "list",
      "dict",      "Namespace", "Macro", "LoopContext", "method", "function"};
  const List* list = value.as_list();
  return list != nullptr && list->is_tuple ? "tuple" : kNames[value.state().index()];
}

std::int32_t client_origin(const Value& value) {
  std::int32_t found = kTemplateOrigin;
  if (const Text* text = value.as_text()) return text->client_origin();
  if (const List* list = value.as_list()) {
    for (const Value& item : list->items) {
      if ((found = client_origin(item)) != kTemplateOrigin) return found;
    }
  }
  if (const Dict* dict = value.as_dict()) {
    for (const auto& [key, item] : dict->entries) {
      if ((found = client_origin(key)) != kTemplateOrigin) return found;
      if ((found = client_origin(item)) != kTemplateOrigin) return found;
    }
  }
  return found;
}

}  // namespace refrain::text::jinja
