// JsonWriter: writes JSON text in the order it is told, with no tree in between. Ill-formed UTF-8
// becomes U+FFFD and numbers that JSON cannot hold become null, so output is always valid JSON.
// One owner, any thread.
//
//   JsonWriter out;
//   out.begin_object().field("id", id).key("data").begin_array().value(1).end_array().end_object();
//   out.text()  ->  {"id":"...","data":[1]}
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

#include "serve/json.h"

namespace refrain::serve {

class JsonWriter {
 public:
  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);

  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  JsonWriter& value(bool flag);
  JsonWriter& value(double number);
  JsonWriter& value(float number);
  template <std::signed_integral T>
  JsonWriter& value(T number) {
    return integer(static_cast<std::int64_t>(number));
  }
  template <std::unsigned_integral T>
    requires(!std::same_as<T, bool>)
  JsonWriter& value(T number) {
    return natural(static_cast<std::uint64_t>(number));
  }
  JsonWriter& value(const Json& tree);  // depth is bounded by the reader that made it
  JsonWriter& null();
  // `json` is written as it stands; it must be one whole JSON value.
  JsonWriter& raw(std::string_view json);

  template <typename T>
  JsonWriter& field(std::string_view name, const T& item) {
    return key(name).value(item);
  }

  const std::string& text() const { return text_; }
  std::string take() { return std::move(text_); }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  JsonWriter& integer(std::int64_t number);
  JsonWriter& natural(std::uint64_t number);
  void separate();
  void quote(std::string_view text);

  std::string text_;
  bool needs_comma_ = false;
};

// One value as compact text, key order kept.
std::string to_text(const Json& tree);

}  // namespace refrain::serve
