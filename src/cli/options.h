// The one table of options: command-line flags, INI keys, environment, defaults, units and help all
// come from kOptions (options.cpp); so do `--help`, `refrain config show` and
// docs/reference/options.md. Main thread, at start-up. CLI11 appears in parse.cpp only.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace refrain::cli {

// kCount: "7B", decimal. kRate: bytes per second, "27GB/s", decimal, too.
enum class OptionKind { kText, kInteger, kReal, kSize, kCount, kRate, kBool, kChoice, kList };

struct OptionInfo {
  std::string_view flag;     // "--kv-budget"
  std::string_view ini_key;  // "cache.kv_budget" (section.key); "" = not in the INI file
  OptionKind kind;
  std::string_view default_text;  // as written by a user; "" of a number: none, so ask is_set()
                                  // first (only where no file may hold it)
  std::string_view unit;          // "bytes", "tokens", "s", ""
  std::string_view choices;       // "lru|lfu" for kChoice
  std::string_view help;          // one sentence
  std::string_view commands;      // "serve,chat,run": where it counts; "*" = everywhere
  std::string_view aliases = {};  // other spellings, "--ctx-size -c"
  double minimum = 0;             // of kInteger, kReal, kSize, kCount, kRate
  double maximum = 9e15;
  bool secret = false;  // never shown
  // Of kBool: "--reuse repair exact", the option that it sets and the values for true and false.
  std::string_view stands_for = {};
};

std::span<const OptionInfo> option_table();

// The row with this flag or alias; null if there is none.
const OptionInfo* find_option(std::string_view flag);
const OptionInfo* find_ini_key(std::string_view ini_key);
// "--kv-budget" -> "REFRAIN_KV_BUDGET"; "" for options of one call only (no INI key).
std::string env_name(const OptionInfo& option);
// Whether `command` ("serve", "bench prefill") takes the option as a flag.
bool counts_for(const OptionInfo& option, std::string_view command);

}  // namespace refrain::cli
