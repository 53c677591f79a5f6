// The DOM is built from nlohmann's SAX events, so that depth and size are checked while reading and
// an error can name the member it happened in. The only place that includes the JSON library.
#include "serve/json.h"

#include <nlohmann/json.hpp>

#include "base/str.h"

namespace refrain::serve {
namespace {

constexpr std::size_t kMaxQuotedBytes = 60;

std::string shorten(std::string_view text) {
  if (text.size() <= kMaxQuotedBytes) return to_valid_utf8(text);
  return to_valid_utf8(text.substr(0, kMaxQuotedBytes)) + "...";
}

class Builder {
 public:
  Builder(const JsonLimits& limits, Json& root) : limits_(limits), root_(root) {}

  bool null() { return add(Json{}); }
  bool boolean(bool value) { return add(Json{value}); }
  bool number_integer(std::int64_t value) { return add(Json{value}); }
  bool number_unsigned(std::uint64_t value) {
    // Small ones as signed, so that one alternative covers what fits.
    if (value <= static_cast<std::uint64_t>(INT64_MAX))
      return add(Json{static_cast<std::int64_t>(value)});
    return add(Json{value});
  }
  bool number_float(double value, const std::string& /*text*/) { return add(Json{value}); }
  bool string(std::string& value) { return add(Json{std::move(value)}); }
  bool binary(std::vector<std::uint8_t>& /*value*/) { return false; }
  bool start_object(std::size_t /*count*/) { return open(Json{JsonObject{}}); }
  bool start_array(std::size_t /*count*/) { return open(Json{JsonArray{}}); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    keys_.back() = std::move(name);
    return true;
  }

  bool parse_error(std::size_t position, const std::string& last_token,
                   const nlohmann::detail::exception& fault) {
    const bool overflow = fault.id == 406;
    error_.code = Code::kInvalidArgument;
    error_.field = path();
    error_.message =
        overflow ? str_cat("the number ", shorten(last_token), " is out of range")
                 : str_cat("the body is not valid JSON: at byte ", position,
                           last_token.empty() ? "" : str_cat(", near `", shorten(last_token), "`"));
    if (!error_.field.empty()) error_.message += str_cat(" (in `", error_.field, "`)");
    return false;
  }

  const Error& error() const { return error_; }

 private:
  // Where the reader stands, e.g. "messages[2].content"; bounded by the depth limit.
  std::string path() const {
    std::string path;
    for (std::size_t level = 0; level < open_.size(); ++level) {
      if (const JsonArray* items = open_[level]->array()) {
        path += str_cat("[", items->size() - (level + 1 < open_.size() ? 1 : 0), "]");
      } else if (!keys_[level].empty()) {
        if (!path.empty()) path += '.';
        path += shorten(keys_[level]);
      }
    }
    return path;
  }

  bool refuse(std::string message) {
    error_ = Error{Code::kTooLarge, std::move(message), "", path()};
    return false;
  }

  // Puts `value` where the innermost open container wants it; `place` is where it lies then.
  bool add(Json value, Json** place = nullptr) {
    if (++value_count_ > limits_.max_values)
      return refuse(str_cat("the body holds more than ", limits_.max_values, " JSON values"));
    Json* target = &root_;
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (auto* items = std::get_if<JsonArray>(&open_.back()->value)) {
      target = &items->emplace_back(std::move(value));
    } else {
      auto& members = std::get<JsonObject>(open_.back()->value);
      target = &members.emplace_back(JsonMember{std::move(keys_.back()), std::move(value)}).value;
      keys_.back() = members.back().name;
    }
    if (place != nullptr) *place = target;
    return true;
  }

  bool open(Json container) {
    if (open_.size() >= limits_.max_depth)
      return refuse(str_cat("the body is nested deeper than ", limits_.max_depth, " levels"));
    Json* place = nullptr;
    if (!add(std::move(container), &place)) return false;
    open_.push_back(place);  // stays valid: its parent does not grow while it is open
    keys_.emplace_back();
    return true;
  }

  bool close() {
    open_.pop_back();
    keys_.pop_back();
    return true;
  }

  const JsonLimits& limits_;
  Json& root_;
  std::vector<Json*> open_;        // containers being read, outermost first
  std::vector<std::string> keys_;  // last key read in each of them
  std::size_t value_count_ = 0;
  Error error_{Code::kInvalidArgument, "the body is not valid JSON"};
};

}  // namespace

const Json* Json::find(std::string_view name) const {
  const JsonObject* members = object();
  if (members == nullptr) return nullptr;
  for (auto it = members->rbegin(); it != members->rend(); ++it)
    if (it->name == name) return &it->value;
  return nullptr;
}

std::string_view Json::kind_name() const {
  static constexpr std::string_view kNames[] = {"null",     "a boolean", "an integer", "an integer",
                                                "a number", "a string",  "an array",   "an object"};
  return kNames[value.index()];
}

Result<Json> parse_json(std::string_view text, const JsonLimits& limits) {
  if (trim(text).empty())
    return Error{Code::kInvalidArgument, "the body is empty", "send a JSON object"};
  Json root;
  Builder builder(limits, root);
  try {
    if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) return builder.error();
  } catch (const std::exception& fault) {
    return Error{Code::kInvalidArgument,
                 str_cat("the body cannot be read: ", shorten(fault.what()))};
  }
  return root;
}

}  // namespace refrain::serve
