// From the words of the command line to flags and arguments, through CLI11 (parse.cpp only), built
// from the option table. Knows nothing of values: Settings checks those. Main thread.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace refrain::cli {

struct CommandLine {
  std::string command;  // "serve", "bench prefill"; "" = none given
  bool help = false;
  bool version = false;
  std::map<std::string, std::vector<std::string>> flags;  // by the table's flag; values in order
  std::vector<std::string> arguments;
};

// kInvalidArgument: unknown command or option (with the nearest known one), an option of another
// command, a missing value, an argument too many.
Result<CommandLine> parse_command_line(const std::vector<std::string>& words);

}  // namespace refrain::cli
