// str() and repr() of values as Python writes them, with origins. Any thread.
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/str.h"
#include "text/jinja_value.h"

namespace refrain::text::jinja {
namespace {

void append_escape(std::string& out, char32_t code) {
  std::array<char, 16> buffer{};
  const char* format = code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x";
  const int length =
      std::snprintf(buffer.data(), buffer.size(), format, static_cast<unsigned>(code));
  out.append(buffer.data(), static_cast<std::size_t>(length));
}

// Python's choice: single quotes unless the text has one and no double quote.
void append_repr(Text& out, const Text& text) {
  const std::string& bytes = text.bytes();
  const bool use_double =
      bytes.find('\'') != std::string::npos && bytes.find('"') == std::string::npos;
  const char quote = use_double ? '"' : '\'';
  const std::int32_t client = text.client_origin();
  out.append(std::string_view(&quote, 1), client);
  for (std::size_t at = 0; at < bytes.size();) {
    const Character c = character_at(bytes, at);
    std::string piece;
    if (c.code_point == static_cast<char32_t>(quote) || c.code_point == '\\') {
      piece = {'\\', static_cast<char>(c.code_point)};
    } else if (c.code_point == '\n') {
      piece = "\\n";
    } else if (c.code_point == '\r') {
      piece = "\\r";
    } else if (c.code_point == '\t') {
      piece = "\\t";
    } else if (!is_printable(c.code_point)) {
      append_escape(piece, c.code_point);
    } else {
      piece = bytes.substr(at, c.length);
    }
    out.append(piece, text.origin_at(at));
    at += c.length;
  }
  out.append(std::string_view(&quote, 1), client);
}

void append_value(Text& out, const Value& value, std::int32_t around);

void append_list(Text& out, const List& list, std::int32_t around) {
  out.append(list.is_tuple ? "(" : "[", around);
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) out.append(", ", around);
    append_value(out, list.items[i], around);
  }
  if (list.is_tuple && list.items.size() == 1) out.append(",", around);
  out.append(list.is_tuple ? ")" : "]", around);
}

void append_dict(Text& out, const Dict& dict, std::int32_t around) {
  out.append("{", around);
  for (std::size_t i = 0; i < dict.entries.size(); ++i) {
    if (i > 0) out.append(", ", around);
    append_value(out, dict.entries[i].first, around);
    out.append(": ", around);
    append_value(out, dict.entries[i].second, around);
  }
  out.append("}", around);
}

std::string scalar_text(const Value& value) {
  if (value.is_undefined()) return "Undefined";
  if (value.is_none()) return "None";
  if (const auto* flag = value.as<bool>()) return *flag ? "True" : "False";
  if (const auto* number = value.as<std::int64_t>()) return std::to_string(*number);
  if (const auto* number = value.as<Float>()) return format_double(number->number);
  return str_cat("<", type_name(value), ">");
}

// repr; `around` is the origin of brackets and commas.
void append_value(Text& out, const Value& value, std::int32_t around) {
  if (const Text* text = value.as_text()) return append_repr(out, *text);
  if (const List* list = value.as_list()) return append_list(out, *list, around);
  if (const Dict* dict = value.as_dict()) return append_dict(out, *dict, around);
  out.append(scalar_text(value), around);
}

}  // namespace

std::string format_double(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  std::array<char, 40> buffer{};
  // Shortest digits that read back the same; Python writes an exponent below 1e-4 and from 1e16.
  const double size = std::fabs(number);
  const bool scientific = size != 0.0 && (size < 1e-4 || size >= 1e16);
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), number,
                    scientific ? std::chars_format::scientific : std::chars_format::fixed);
  std::string text(buffer.data(), end.ptr);
  if (!scientific && text.find('.') == std::string::npos) text += ".0";
  return text;
}

Text to_text(const Value& value) {
  if (value.is_undefined()) return Text();
  if (const Text* text = value.as_text()) return *text;
  Text out;
  append_value(out, value, client_origin(value));
  return out;
}

}  // namespace refrain::text::jinja
