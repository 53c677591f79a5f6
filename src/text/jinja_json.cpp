// JSON reading by nlohmann's event parser (no recursion) and writing with origins. Any thread.
#include "text/jinja_json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/str.h"
#include "text/jinja_arguments.h"

namespace refrain::text::jinja {
namespace {

// Builds values from parser events; returns false to stop.
class Builder {
 public:
  explicit Builder(std::int32_t origin) : origin_(origin) {}

  bool null() { return add(Value::none()); }
  bool boolean(bool value) { return add(Value::boolean(value)); }
  bool number_integer(std::int64_t value) { return add(Value::integer(value)); }
  bool number_unsigned(std::uint64_t value) {
    if (value <= static_cast<std::uint64_t>(INT64_MAX)) {
      return add(Value::integer(static_cast<std::int64_t>(value)));
    }
    return add(real(static_cast<double>(value), std::to_string(value)));
  }
  bool number_float(double value, const std::string& spelling) {
    return add(real(value, spelling));
  }
  bool string(std::string& value) { return add(Value::text(value, origin_)); }
  bool binary(nlohmann::json::binary_t&) { return false; }
  bool start_object(std::size_t) { return open(true); }
  bool start_array(std::size_t) { return open(false); }
  bool end_object() {
    Result<Value> done = make_dict(std::move(open_.back().dict));
    return close(std::move(done));
  }
  bool end_array() {
    Result<Value> done = make_list(std::move(open_.back().items));
    return close(std::move(done));
  }
  bool key(std::string& name) {
    open_.back().key = Value::text(name, origin_);
    return true;
  }
  bool parse_error(std::size_t at, const std::string&, const nlohmann::json::exception&) {
    message_ = str_cat("not valid JSON at byte ", at);
    return false;
  }

  const std::string& message() const { return message_; }
  Value take() { return std::move(result_); }

 private:
  struct Open {
    bool is_object = false;
    Values items;
    Dict dict;
    Value key;
  };

  static Value real(double value, std::string spelling) {
    return Value(Float{value, std::make_shared<const std::string>(std::move(spelling))});
  }
  bool open(bool is_object) {
    if (open_.size() + 2 > kMaxValueDepth) {
      message_ = str_cat("JSON that nests more than ", kMaxValueDepth - 2, " levels deep");
      return false;
    }
    open_.push_back({is_object, {}, {}, {}});
    return true;
  }
  bool close(Result<Value> done) {
    open_.pop_back();
    if (!done.ok()) {
      message_ = done.error().message;
      return false;
    }
    return add(std::move(done).value());
  }
  bool add(Value value) {
    if (open_.empty()) {
      result_ = std::move(value);
    } else if (open_.back().is_object) {
      open_.back().dict.set(open_.back().key, std::move(value));
    } else {
      open_.back().items.push_back(std::move(value));
    }
    return true;
  }

  std::int32_t origin_;
  std::vector<Open> open_;
  Value result_;
  std::string message_ = "not valid JSON";
};

class Writer {
 public:
  Writer(const JsonStyle& style, std::int32_t around, std::size_t max_bytes)
      : style_(style), around_(around), max_bytes_(max_bytes) {}

  Result<void> write(const Value& value, std::size_t level) {
    if (out_.size() > max_bytes_) return {};
    if (const Text* text = value.as_text()) return write_string(*text);
    if (const List* list = value.as_list()) return write_list(*list, level);
    if (const Dict* dict = value.as_dict()) return write_dict(*dict, level);
    ASSIGN_OR_RETURN(const std::string plain, scalar(value));
    put(plain);
    return {};
  }
  Text take() { return std::move(out_); }

 private:
  void put(std::string_view text) { out_.append(text, around_); }
  void new_line(std::size_t level) {
    if (!style_.is_multi_line) return;
    std::string text = "\n";
    for (std::size_t i = 0; i < level; ++i) text += style_.indent;
    put(text);
  }

  static Result<std::string> scalar(const Value& value) {
    if (value.is_none()) return std::string("null");
    if (const auto* flag = value.as<bool>()) return std::string(*flag ? "true" : "false");
    if (const auto* number = value.as<std::int64_t>()) return std::to_string(*number);
    if (const auto* number = value.as<Float>()) {
      if (number->spelling != nullptr) return *number->spelling;
      if (std::isnan(number->number)) return std::string("NaN");
      if (std::isinf(number->number))
        return std::string(number->number < 0 ? "-Infinity" : "Infinity");
      return format_double(number->number);
    }
    return wrong(str_cat("a `", type_name(value), "` cannot be written as JSON"));
  }

  Result<void> write_string(const Text& text) {
    const std::string& bytes = text.bytes();
    const std::int32_t edge =
        text.client_origin() != kTemplateOrigin ? text.client_origin() : around_;
    out_.append("\"", edge);
    std::size_t plain = 0;  // begin of what needs no escape
    for (std::size_t at = 0; at < bytes.size();) {
      const Character c = character_at(bytes, at);
      const std::string escape = escaped(c.code_point);
      if (!escape.empty()) {
        out_.append(text, plain, at);
        out_.append(escape, text.origin_at(at));
        plain = at + c.length;
      }
      at += c.length;
    }
    out_.append(text, plain, bytes.size());
    out_.append("\"", edge);
    return {};
  }

  std::string escaped(char32_t code) const {
    if (code == '"') return "\\\"";
    if (code == '\\') return "\\\\";
    if (code >= 0x20 && (code < 0x7F || !style_.ascii_only || code == 0x7F)) return "";
    static constexpr std::string_view kFrom = "\n\r\t\b\f";
    static constexpr std::string_view kTo = "nrtbf";
    const std::size_t simple =
        code < 0x20 ? kFrom.find(static_cast<char>(code)) : std::string_view::npos;
    if (simple != std::string_view::npos) return {'\\', kTo[simple]};
    if (code < 0x10000) return hexadecimal(code);
    const char32_t rest = code - 0x10000;
    return hexadecimal(0xD800 + (rest >> 10U)) + hexadecimal(0xDC00 + (rest & 0x3FFU));
  }
  static std::string hexadecimal(char32_t unit) {
    std::array<char, 8> buffer{};
    const int length =
        std::snprintf(buffer.data(), buffer.size(), "\\u%04x", static_cast<unsigned>(unit));
    return {buffer.data(), static_cast<std::size_t>(length)};
  }

  Result<void> write_list(const List& list, std::size_t level) {
    if (list.items.empty()) {
      put("[]");
      return {};
    }
    put("[");
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) put(style_.item_separator);
      new_line(level + 1);
      RETURN_IF_ERROR(write(list.items[i], level + 1));
    }
    new_line(level);
    put("]");
    return {};
  }

  Result<void> write_dict(const Dict& dict, std::size_t level) {
    if (dict.entries.empty()) {
      put("{}");
      return {};
    }
    std::vector<const std::pair<Value, Value>*> entries;
    entries.reserve(dict.entries.size());
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [](const auto* left, const auto* right) {
        const Result<int> order = compare(left->first, right->first);
        return order.ok() && *order < 0;
      });
    }
    put("{");
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) put(style_.item_separator);
      new_line(level + 1);
      const Value& key = entries[i]->first;
      if (const Text* name = key.as_text()) {
        RETURN_IF_ERROR(write_string(*name));
      } else {
        ASSIGN_OR_RETURN(const std::string plain, scalar(key));
        put("\"" + plain + "\"");
      }
      put(style_.key_separator);
      RETURN_IF_ERROR(write(entries[i]->second, level + 1));
    }
    new_line(level);
    put("}");
    return {};
  }

  const JsonStyle& style_;
  std::int32_t around_;  // origin of all that is not part of a string
  std::size_t max_bytes_;
  Text out_;
};

}  // namespace

Result<Value> parse_json(std::string_view json, std::int32_t origin) {
  Builder builder(origin);
  if (nlohmann::json::sax_parse(json.begin(), json.end(), &builder)) return builder.take();
  return wrong(builder.message());
}

Result<Text> to_json(const Value& value, const JsonStyle& style, std::size_t max_bytes) {
  Writer writer(style, client_origin(value), max_bytes);
  RETURN_IF_ERROR(writer.write(value, 0));
  return writer.take();
}

}  // namespace refrain::text::jinja
