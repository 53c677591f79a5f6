// Values of the template interpreter: what Python's would be, immutable but for Namespace.
// Values nest at most kMaxValueDepth deep (checked where containers are made), so that walking and
// destroying them needs bounded stack. One render owns its values; one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "text/jinja_text.h"

namespace refrain::text::jinja {

inline constexpr std::uint32_t kMaxValueDepth = 100;

class Value;
struct List;
struct Dict;
struct Namespace;
struct Macro;
struct Loop;
struct Method;
enum class Builtin : std::uint8_t { kRange, kDict, kNamespace, kRaiseException, kStrftimeNow };

struct Undefined {
  std::shared_ptr<const std::string> reason;  // "'x' is undefined"; may be null
};
struct None {};
struct Float {
  double number = 0;
  std::shared_ptr<const std::string> spelling;  // as the client's JSON wrote it; may be null
};

class Value {
 public:
  using Variant = std::variant<Undefined, None, bool, std::int64_t, Float,
                               std::shared_ptr<const Text>, std::shared_ptr<const List>,
                               std::shared_ptr<const Dict>, Namespace*, const Macro*,
                               std::shared_ptr<const Loop>, std::shared_ptr<const Method>, Builtin>;

  Value() = default;  // undefined
  template <typename T>
    requires(!std::is_same_v<std::remove_cvref_t<T>, Value>) &&
            std::is_constructible_v<Variant, T&&>
  Value(T&& value) : state_(std::forward<T>(value)) {}  // NOLINT

  static Value undefined(std::string reason);
  static Value none() { return Value(None{}); }
  static Value boolean(bool value) { return Value(Variant(std::in_place_type<bool>, value)); }
  static Value integer(std::int64_t value) {
    return Value(Variant(std::in_place_type<std::int64_t>, value));
  }
  static Value real(double value) { return Value(Float{value, nullptr}); }
  static Value text(Text value) { return Value(std::make_shared<const Text>(std::move(value))); }
  static Value text(std::string_view bytes, std::int32_t origin = kTemplateOrigin) {
    return text(Text(bytes, origin));
  }

  bool is_undefined() const { return std::holds_alternative<Undefined>(state_); }
  bool is_none() const { return std::holds_alternative<None>(state_); }
  bool is_number() const { return is_integral() || as<Float>() != nullptr; }
  bool is_integral() const { return as<bool>() != nullptr || as<std::int64_t>() != nullptr; }

  template <typename T>
  const T* as() const {
    return std::get_if<T>(&state_);
  }
  const Text* as_text() const { return pointee<Text>(); }
  const List* as_list() const { return pointee<List>(); }
  const Dict* as_dict() const { return pointee<Dict>(); }
  const Loop* as_loop() const { return pointee<Loop>(); }
  const Method* as_method() const { return pointee<Method>(); }
  Namespace* as_namespace() const {
    const auto* found = as<Namespace*>();
    return found != nullptr ? *found : nullptr;
  }
  const Macro* as_macro() const {
    const auto* found = as<const Macro*>();
    return found != nullptr ? *found : nullptr;
  }
  std::shared_ptr<const List> list_pointer() const {
    const auto* found = as<std::shared_ptr<const List>>();
    return found != nullptr ? *found : nullptr;
  }
  // Number of a bool or integer; 0 for others.
  std::int64_t to_integer() const;
  double to_double() const;
  std::uint32_t depth() const;  // 0 for scalars
  // Work of walking the value in steps: 1 per item and 256 bytes of text, shared parts counted
  // each time they are met; saturates.
  std::uint32_t weight() const;
  const Variant& state() const { return state_; }

 private:
  template <typename T>
  const T* pointee() const {
    const auto* found = as<std::shared_ptr<const T>>();
    return found != nullptr ? found->get() : nullptr;
  }
  Variant state_;
};

using Values = std::vector<Value>;

struct List {
  Values items;
  bool is_tuple = false;
  std::uint32_t depth = 1;
  std::uint32_t weight = 1;
};

// Keeps the order of insertion. Keys are strings, numbers, booleans, None or tuples of these.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  std::unordered_map<std::string, std::size_t> index;  // string key -> entry
  std::uint32_t depth = 1;
  std::uint32_t weight = 1;

  const Value* find(std::string_view key) const;
  const Value* find(const Value& key) const;
  void set(const Value& key, Value value);  // replaces in place
};

// {% set ns.x = ... %} changes it. Owned by the render, never by values: no cycles of ownership.
struct Namespace {
  std::unordered_map<std::string, Value> attributes;
};

struct Loop {
  std::shared_ptr<const List> items;
  std::int64_t nesting = 0;  // loop.depth0
  std::size_t index = 0;     // moved by the running loop
};

struct Method {
  Value self;
  std::string name;
};

// kInvalidArgument if it nests too deep.
Result<Value> make_list(Values items, bool is_tuple = false);
Result<Value> make_dict(Dict dict);

bool truth(const Value& value);
bool equal(const Value& left, const Value& right);
// <0, 0, >0; an error for values without an order between them.
Result<int> compare(const Value& left, const Value& right);
bool is_hashable(const Value& value);

// str() and repr() of Python. Text from clients keeps its origin; what stands around it inside a
// container counts as the client's too.
Text to_text(const Value& value);
std::string format_double(double number);
std::string_view type_name(const Value& value);  // as Python calls it: "str", "dict", ...
// The first client origin inside the value, else kTemplateOrigin.
std::int32_t client_origin(const Value& value);

}  // namespace refrain::text::jinja
