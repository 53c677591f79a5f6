// IniFile: the settings file. `[section]` lines, `key = value` lines, `#` or `;` comments on lines
// of their own (or after a blank behind a value); values may stand in double quotes. A key of a
// list option may be repeated. Main thread, at start-up.
//
//   [cache]
//   block_size = 16
//   suffix.enabled = true        -> key "cache.suffix.enabled"
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace refrain::cli {

struct IniEntry {
  std::string key;  // section.key
  std::string value;
  std::size_t line = 0;
};

struct IniFile {
  std::string path;
  std::vector<IniEntry> entries;  // in file order
};

// kInvalidArgument naming file and line for what is not a section, a setting or a comment; knows
// nothing of which keys exist (settings.h does).
Result<IniFile> parse_ini(std::string_view text, const std::string& path);
// kNotFound, kTooLarge (over 1 MiB), or as parse_ini.
Result<IniFile> read_ini(const std::string& path);

}  // namespace refrain::cli
