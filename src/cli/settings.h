// Settings: the effective value of every option and where it came from. Precedence: flag,
// environment, file, default. An option that stands for another's values (OptionInfo::stands_for)
// sets that one where it stands itself. Values are checked when resolved, so the getters cannot
// fail: asking for an option that is not in the table, or as another kind, is a bug. Immutable; any
// thread.
//
//   ASSIGN_OR_RETURN(Settings settings, Settings::resolve(command_line, environment));
//   settings.integer("--port");  settings.size("--max-body");  settings.boolean("--json");
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/files.h"
#include "cli/ini_file.h"
#include "cli/options.h"
#include "cli/parse.h"

namespace refrain::cli {

enum class Source { kDefault, kFile, kEnvironment, kFlag };

struct Setting {
  const OptionInfo* option = nullptr;
  std::vector<std::string> values;  // one, or any number for a list
  Source source = Source::kDefault;
  std::string origin;  // "/etc/refrain.ini line 4", "REFRAIN_PORT", "--port"
};

class Settings {
 public:
  // Reads the file named by --config or REFRAIN_CONFIG, if any. kInvalidArgument (unknown key with
  // the nearest known one, bad value, two options of one place that contradict each other) or
  // kNotFound.
  static Result<Settings> resolve(const CommandLine& line, const Environment& environment);

  const std::string& text(std::string_view flag) const;  // also kChoice
  std::int64_t integer(std::string_view flag) const;
  double real(std::string_view flag) const;         // also kCount and kRate (bytes/s)
  std::uint64_t size(std::string_view flag) const;  // 0 for "auto"
  bool boolean(std::string_view flag) const;
  const std::vector<std::string>& list(std::string_view flag) const;
  bool is_set(std::string_view flag) const;  // by file, environment or flag
  const Setting& setting(std::string_view flag) const;

  const std::string& command() const { return command_; }
  const std::vector<std::string>& arguments() const { return arguments_; }
  const Environment& environment() const { return environment_; }

 private:
  std::string command_;
  std::vector<std::string> arguments_;
  Environment environment_;
  std::map<std::string_view, Setting> settings_;  // by flag
};

// Checks one value against the option's kind, choices and range; the message names `origin`.
Result<void> check_value(const OptionInfo& option, const std::string& value,
                         const std::string& origin);

// "true", "on", "yes", "1" and their opposites.
Result<bool> parse_bool(std::string_view text);
// "512,4096" or "8k" -> numbers; each in [minimum, maximum].
Result<std::vector<std::uint32_t>> parse_token_counts(const std::string& text,
                                                      std::string_view flag, std::uint32_t minimum,
                                                      std::uint32_t maximum);

}  // namespace refrain::cli
