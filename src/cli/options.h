// The one table of options: command-line flags, INI keys, environment, defaults, units and help all
// come from kOptions (options.cpp); so do `--help`, `refrain config show` and docs/reference/options.md.
// Main thread, at start-up. CLI11 appears in parse.cpp only.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace refrain::cli {

enum class OptionKind { kText, kInteger, kReal, kSize, kBool, kChoice, kList };

struct OptionInfo {
  std::string_view flag;          // "--kv-budget"
  std::string_view ini_key;       // "cache.kv_budget" (section.key); "" = not in the INI file
  OptionKind kind;
  std::string_view default_text;  // as written by a user
  std::string_view unit;          // "bytes", "tokens", "s", ""
  std::string_view choices;       // "lru|lfu" for kChoice
  std::string_view help;          // one sentence
  std::string_view commands;      // "serve chat run": where it counts; "*" = everywhere
  bool built;                     // false: accepted and answered with a note ("comes with ...")
};

std::span<const OptionInfo> option_table();

}  // namespace refrain::cli
