// Parsing of keys. Main thread.
#include "cli/api_keys.h"

#include <algorithm>
#include <cctype>

#include "base/str.h"
#include "cli/files.h"

namespace refrain::cli {
namespace {

constexpr std::size_t kMaxKeyBytes = 1024;
// `tenant=` with the key forgotten must not become a key; base64 keys that end in `=` are longer.
constexpr std::size_t kShortestPaddedKey = 16;
constexpr std::size_t kMaxFileBytes = 1U << 20U;

bool is_tenant_name(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
  });
}

Error key_error(std::string_view what, std::size_t index) {
  return Error{Code::kInvalidArgument, str_cat("API key number ", index, " ", what),
               "write KEY or TENANT=KEY, printable characters without blanks", "--api-key"};
}

}  // namespace

Result<serve::ApiKey> parse_api_key(std::string_view text, std::size_t index) {
  text = trim(text);
  serve::ApiKey made{.key = std::string(text), .tenant = str_cat("key-", index), .max_waiting = 0};
  const std::size_t equals = text.find('=');
  const bool padded = equals != std::string_view::npos &&
                      text.find_first_not_of('=', equals) == std::string_view::npos;
  if (padded && text.size() < kShortestPaddedKey)
    return key_error("is empty behind its tenant", index);
  if (equals != std::string_view::npos && !padded) {
    made.tenant = text.substr(0, equals);
    made.key = text.substr(equals + 1);
    if (!is_tenant_name(made.tenant)) {
      return key_error("has a tenant name with other characters than A-Z a-z 0-9 - _ .", index);
    }
  }
  if (made.key.empty()) return key_error("is empty", index);
  if (made.key.size() > kMaxKeyBytes) return key_error("is longer than 1024 bytes", index);
  for (const char c : made.key) {
    if (std::isgraph(static_cast<unsigned char>(c)) == 0)
      return key_error("holds a blank or an unprintable character", index);
  }
  return made;
}

Result<std::vector<serve::ApiKey>> collect_api_keys(const Settings& settings) {
  std::vector<std::string> texts = settings.list("--api-key");
  if (const std::string& path = settings.text("--api-key-file"); !path.empty()) {
    ASSIGN_OR_RETURN(const std::string file, read_file(path, kMaxFileBytes));
    const std::size_t before = texts.size();
    for (const std::string_view raw : split(file, '\n')) {
      const std::string_view line = trim(raw);
      if (!line.empty() && line.front() != '#') texts.emplace_back(line);
    }
    // An empty file must not mean an open server.
    if (texts.size() == before) {
      return Error{Code::kInvalidArgument, str_cat("`", path, "` holds no key"),
                   "write one key a line", "--api-key-file"};
    }
  }
  std::vector<serve::ApiKey> keys;
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(serve::ApiKey key, parse_api_key(text, keys.size() + 1));
    const bool twice = std::any_of(keys.begin(), keys.end(),
                                   [&](const auto& other) { return other.key == key.key; });
    if (twice) return key_error("stands there twice", keys.size() + 1);
    keys.push_back(std::move(key));
  }
  return keys;
}

}  // namespace refrain::cli
