// See json_writer.h.
#include "serve/json_writer.h"

#include <array>
#include <charconv>
#include <cmath>

#include "base/str.h"

namespace refrain::serve {
namespace {

template <typename Number>
std::string shortest(Number number) {
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number).ptr;
  return {buffer.data(), end};
}

}  // namespace

void JsonWriter::separate() {
  if (needs_comma_) text_ += ',';
  needs_comma_ = true;
}

JsonWriter& JsonWriter::open(char bracket) {
  separate();
  text_ += bracket;
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  text_ += bracket;
  needs_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  quote(name);
  text_ += ':';
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  separate();
  quote(text);
  return *this;
}

JsonWriter& JsonWriter::value(bool flag) {
  return raw(flag ? "true" : "false");
}

JsonWriter& JsonWriter::value(double number) {
  if (!std::isfinite(number)) return null();
  std::string digits = shortest(number);
  // 2.0 stays recognisable as a real number.
  if (digits.find_first_of(".eE") == std::string::npos) digits += ".0";
  return raw(digits);
}

JsonWriter& JsonWriter::value(float number) {
  return std::isfinite(number) ? raw(shortest(number)) : null();
}

JsonWriter& JsonWriter::integer(std::int64_t number) {
  return raw(shortest(number));
}
JsonWriter& JsonWriter::natural(std::uint64_t number) {
  return raw(shortest(number));
}
JsonWriter& JsonWriter::null() {
  return raw("null");
}

JsonWriter& JsonWriter::raw(std::string_view json) {
  separate();
  text_ += json;
  return *this;
}

JsonWriter& JsonWriter::value(const Json& tree) {
  if (const JsonObject* members = tree.object()) {
    begin_object();
    for (const JsonMember& member : *members) key(member.name).value(member.value);
    return end_object();
  }
  if (const JsonArray* items = tree.array()) {
    begin_array();
    for (const Json& item : *items) value(item);
    return end_array();
  }
  if (const std::string* text = tree.text()) return value(*text);
  if (const bool* flag = std::get_if<bool>(&tree.value)) return value(*flag);
  if (const auto* number = std::get_if<std::int64_t>(&tree.value)) return integer(*number);
  if (const auto* number = std::get_if<std::uint64_t>(&tree.value)) return natural(*number);
  if (const auto* number = std::get_if<double>(&tree.value)) return value(*number);
  return null();
}

void JsonWriter::quote(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string replaced;
  if (!is_valid_utf8(text)) {
    replaced = to_valid_utf8(text);
    text = replaced;
  }
  text_ += '"';
  for (const char c : text) {
    switch (c) {
      case '"':
        text_ += "\\\"";
        break;
      case '\\':
        text_ += "\\\\";
        break;
      case '\n':
        text_ += "\\n";
        break;
      case '\r':
        text_ += "\\r";
        break;
      case '\t':
        text_ += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
          text_ += "\\u00";
          text_ += kHex[static_cast<unsigned char>(c) >> 4U];
          text_ += kHex[static_cast<unsigned char>(c) & 15U];
        } else {
          text_ += c;
        }
    }
  }
  text_ += '"';
}

std::string to_text(const Json& tree) {
  JsonWriter out;
  out.value(tree);
  return out.take();
}

}  // namespace refrain::serve
