// The INI reader: one pass over the lines. Main thread.
#include "cli/ini_file.h"

#include "base/str.h"
#include "cli/files.h"

namespace refrain::cli {
namespace {

constexpr std::size_t kMaxFileBytes = 1U << 20U;

Error line_error(const std::string& path, std::size_t line, const std::string& what) {
  return Error{Code::kInvalidArgument, str_cat("`", path, "` line ", line, ": ", what),
               "settings look like `[cache]` followed by `block_size = 16`",
               str_cat("line ", line)};
}

// A comment begins at the start of a value or behind a blank: `key = value   # why`.
std::string_view without_comment(std::string_view value) {
  for (std::size_t i = 0; i < value.size(); ++i) {
    const bool at_start = i == 0 || value[i - 1] == ' ' || value[i - 1] == '\t';
    if ((value[i] == '#' || value[i] == ';') && at_start) return trim(value.substr(0, i));
  }
  return value;
}

Result<std::string> parse_value(std::string_view raw, const std::string& path, std::size_t line) {
  if (raw.empty() || raw.front() != '"') return std::string(without_comment(raw));
  const std::size_t end = raw.find('"', 1);
  if (end == std::string_view::npos) return line_error(path, line, "the closing quote is missing");
  const std::string_view rest = trim(raw.substr(end + 1));
  if (!rest.empty() && rest.front() != '#' && rest.front() != ';') {
    return line_error(path, line, "text behind the closing quote");
  }
  return std::string(raw.substr(1, end - 1));
}

}  // namespace

Result<IniFile> parse_ini(std::string_view text, const std::string& path) {
  IniFile file{.path = path, .entries = {}};
  std::string section;
  std::size_t number = 0;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  for (const std::string_view raw : split(text, '\n')) {
    ++number;
    const std::string_view line = trim(raw);
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (!is_valid_utf8(line) || line.find('\0') != std::string_view::npos) {
      return line_error(path, number, "not text (invalid UTF-8 or a NUL character)");
    }
    if (line.front() == '[') {
      const std::string_view whole = without_comment(line);
      if (whole.size() < 3 || whole.back() != ']') {
        return line_error(path, number, "a section is written `[name]`");
      }
      section = trim(whole.substr(1, whole.size() - 2));
      continue;
    }
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return line_error(path, number, "expected `key = value`");
    }
    const std::string_view key = trim(line.substr(0, equals));
    ASSIGN_OR_RETURN(std::string value, parse_value(trim(line.substr(equals + 1)), path, number));
    file.entries.push_back({.key = section.empty() ? std::string(key) : str_cat(section, ".", key),
                            .value = std::move(value),
                            .line = number});
  }
  return file;
}

Result<IniFile> read_ini(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxFileBytes));
  return parse_ini(text, path);
}

}  // namespace refrain::cli
