// Attributes, items, slices, iteration and membership: what Python's getattr, getitem, iter and
// `in` do, as Jinja2's sandbox allows it. One render, one thread.
#include <algorithm>

#include "base/str.h"
#include "text/jinja_arguments.h"
#include "text/jinja_interpreter.h"

namespace refrain::text::jinja {
namespace {

Error undefined_error(const Value& value) {
  const auto* undefined = value.as<Undefined>();
  const bool has_reason = undefined != nullptr && undefined->reason != nullptr;
  return wrong(has_reason ? *undefined->reason : "the value is undefined");
}

Value no_attribute(const Value& subject, std::string_view name) {
  return Value::undefined(str_cat("`", type_name(subject), "` has no attribute `",
                                  to_valid_utf8(name.substr(0, 80)), "`"));
}

Value loop_attribute(const Value& subject, std::string_view name) {
  const Loop& loop = *subject.as_loop();
  const auto count = static_cast<std::int64_t>(loop.items->items.size());
  const auto at = static_cast<std::int64_t>(loop.index);
  if (name == "index") return Value::integer(at + 1);
  if (name == "index0") return Value::integer(at);
  if (name == "revindex") return Value::integer(count - at);
  if (name == "revindex0") return Value::integer(count - at - 1);
  if (name == "first") return Value::boolean(at == 0);
  if (name == "last") return Value::boolean(at + 1 == count);
  if (name == "length") return Value::integer(count);
  if (name == "depth") return Value::integer(loop.nesting + 1);
  if (name == "depth0") return Value::integer(loop.nesting);
  if (name == "previtem" && at > 0) return loop.items->items[loop.index - 1];
  if (name == "nextitem" && at + 1 < count) return loop.items->items[loop.index + 1];
  if (name == "previtem" || name == "nextitem") {
    return Value::undefined(
        str_cat("there is no ", name == "previtem" ? "previous" : "next", " item"));
  }
  return find_method(subject, name);
}

// Index from the end where negative; nothing if outside.
std::optional<std::size_t> position(std::int64_t index, std::size_t size) {
  const auto count = static_cast<std::int64_t>(size);
  if (index < 0) index += count;
  if (index < 0 || index >= count) return std::nullopt;
  return static_cast<std::size_t>(index);
}

// Positions that a slice of Python picks from `count` items, in order.
std::vector<std::size_t> slice_positions(std::int64_t count, const Value& start, const Value& stop,
                                         std::int64_t step) {
  const auto bound = [&](const Value& value, std::int64_t otherwise) {
    if (value.is_none()) return otherwise;
    std::int64_t at = value.to_integer();
    if (at < 0) at = at < -count ? -1 : at + count;
    return step > 0 ? std::clamp<std::int64_t>(at, 0, count)
                    : std::clamp<std::int64_t>(at, -1, count - 1);
  };
  const std::int64_t from = bound(start, step > 0 ? 0 : count - 1);
  const std::int64_t to = bound(stop, step > 0 ? count : -1);
  step = std::clamp<std::int64_t>(step, -count - 1, count + 1);  // no overflow below
  std::vector<std::size_t> out;
  for (std::int64_t at = from; step > 0 ? at < to : at > to; at += step) {
    out.push_back(static_cast<std::size_t>(at));
  }
  return out;
}

Text slice_text(const Text& text, const std::vector<std::size_t>& positions,
                const std::vector<std::uint32_t>& offsets, std::int64_t step) {
  Text out;
  if (step == 1) {
    if (positions.empty()) return out;
    return text.slice(offsets[positions.front()], offsets[positions.back() + 1]);
  }
  for (const std::size_t at : positions) out.append(text, offsets[at], offsets[at + 1]);
  return out;
}

}  // namespace

Result<Value> Interpreter::attribute(const Value& subject, std::string_view name) {
  if (subject.is_undefined()) return undefined_error(subject);
  if (const Namespace* space = subject.as_namespace()) {
    const auto found = space->attributes.find(std::string(name));
    return found != space->attributes.end() ? found->second : no_attribute(subject, name);
  }
  if (subject.as_loop() != nullptr) return loop_attribute(subject, name);
  if (const Macro* macro = subject.as_macro()) {
    return name == "name" ? Value::text(macro->definition->name) : no_attribute(subject, name);
  }
  Value method = find_method(subject, name);
  if (!method.is_undefined()) return method;
  if (const Dict* dict = subject.as_dict()) {
    if (const Value* found = dict->find(name)) return *found;
  }
  return no_attribute(subject, name);
}

Result<Value> Interpreter::item(const Value& subject, const Value& key) {
  if (subject.is_undefined()) return undefined_error(subject);
  if (const Dict* dict = subject.as_dict(); dict != nullptr && is_hashable(key)) {
    RETURN_IF_ERROR(charge(key.as_text() != nullptr ? 1 : dict->entries.size()));
    if (const Value* found = dict->find(key)) return *found;
  }
  if (key.is_integral()) {
    if (const List* list = subject.as_list()) {
      const auto at = position(key.to_integer(), list->items.size());
      if (at.has_value()) return list->items[*at];
    }
    if (const Text* text = subject.as_text()) {
      RETURN_IF_ERROR(charge_bytes(text->size() * 8));
      const auto offsets = character_offsets(text->bytes());
      const auto at = position(key.to_integer(), offsets.size() - 1);
      if (at.has_value()) return make_text(text->slice(offsets[*at], offsets[*at + 1]));
    }
  }
  if (const Text* name = key.as_text()) return attribute(subject, name->bytes());
  return no_attribute(subject, to_text(key.depth() == 0 ? key : Value::none()).bytes());
}

Result<Value> Interpreter::slice(const Value& subject, const Value& start, const Value& stop,
                                 const Value& step) {
  if (subject.is_undefined()) return undefined_error(subject);
  for (const Value* bound : {&start, &stop, &step}) {
    if (!bound->is_none() && !bound->is_integral()) {
      return wrong(str_cat("a slice needs integers, got a `", type_name(*bound), "`"));
    }
  }
  const std::int64_t stride = step.is_none() ? 1 : step.to_integer();
  if (stride == 0) return wrong("a slice with step 0");
  if (const List* list = subject.as_list()) {
    const auto positions =
        slice_positions(static_cast<std::int64_t>(list->items.size()), start, stop, stride);
    RETURN_IF_ERROR(charge(positions.size()));
    Values items;
    items.reserve(positions.size());
    for (const std::size_t at : positions) items.push_back(list->items[at]);
    return make_list(std::move(items), list->is_tuple);
  }
  const Text* text = subject.as_text();
  if (text == nullptr) return wrong(str_cat("a `", type_name(subject), "` cannot be sliced"));
  RETURN_IF_ERROR(charge_bytes(text->size() * 8));
  const auto offsets = character_offsets(text->bytes());
  const auto positions =
      slice_positions(static_cast<std::int64_t>(offsets.size()) - 1, start, stop, stride);
  return make_text(slice_text(*text, positions, offsets, stride));
}

Result<std::shared_ptr<const List>> Interpreter::items_of(const Value& iterable) {
  Values items;
  if (const auto list = iterable.list_pointer()) {
    RETURN_IF_ERROR(charge(list->items.size()));
    return list;
  }
  if (const Text* text = iterable.as_text()) {
    RETURN_IF_ERROR(charge(text->size()));
    for (std::size_t at = 0; at < text->size();) {
      const std::size_t end = at + character_at(text->bytes(), at).length;
      items.push_back(Value::text(text->slice(at, end)));
      at = end;
    }
  } else if (const Dict* dict = iterable.as_dict()) {
    RETURN_IF_ERROR(charge(dict->entries.size()));
    for (const auto& [key, value] : dict->entries) items.push_back(key);
  } else if (!iterable.is_undefined()) {
    return wrong(str_cat("a `", type_name(iterable), "` is not iterable"));
  }
  ASSIGN_OR_RETURN(const Value list, make_list(std::move(items)));
  return list.list_pointer();
}

Result<bool> Interpreter::contains(const Value& container, const Value& item) {
  RETURN_IF_ERROR(charge(container.weight()));
  if (const Text* text = container.as_text()) {
    if (item.as_text() == nullptr) {
      return wrong(str_cat("`in` a string needs a string, got a `", type_name(item), "`"));
    }
    return text->bytes().find(item.as_text()->bytes()) != std::string::npos;
  }
  if (const List* list = container.as_list()) {
    return std::any_of(list->items.begin(), list->items.end(),
                       [&](const Value& known) { return equal(known, item); });
  }
  if (const Dict* dict = container.as_dict()) {
    if (!is_hashable(item)) return wrong(str_cat("a `", type_name(item), "` cannot be a key"));
    return dict->find(item) != nullptr;
  }
  if (container.is_undefined()) return false;
  return wrong(str_cat("`in` a `", type_name(container), "`"));
}

Result<Value> Interpreter::call(const Value& callee, const Arguments& arguments) {
  if (callee.is_undefined()) return undefined_error(callee);
  if (const Macro* macro = callee.as_macro()) return call_macro(*macro, arguments);
  if (const auto* builtin = callee.as<Builtin>()) return call_builtin(*builtin, arguments);
  if (const Method* method = callee.as_method()) return call_method(*this, *method, arguments);
  return wrong(str_cat("a `", type_name(callee), "` cannot be called"));
}

}  // namespace refrain::text::jinja
