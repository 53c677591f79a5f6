// Resolving and checking settings. Main thread.
#include "cli/settings.h"

#include <cmath>

#include "base/str.h"
#include "cli/suggest.h"
#include "cli/units.h"

namespace refrain::cli {
namespace {

Error bad_value(const OptionInfo& option, const std::string& value, const std::string& origin,
                const std::string& wanted) {
  const std::string shown = option.secret ? "" : str_cat(" `", to_valid_utf8(value), "`");
  return Error{Code::kInvalidArgument, str_cat(origin, ": the value", shown, " is not ", wanted),
               str_cat(option.flag, ": ", option.help), std::string(option.flag)};
}

std::string number_text(double value) {
  return value == std::floor(value) && std::abs(value) < 1e16
             ? std::to_string(static_cast<long long>(value))
             : str_cat(value);
}

std::string range_text(const OptionInfo& option) {
  return str_cat("from ", number_text(option.minimum), " to ", number_text(option.maximum));
}

bool in_range(const OptionInfo& option, double value) {
  return value >= option.minimum && value <= option.maximum;
}

Error unknown_key(const IniFile& file, const IniEntry& entry) {
  std::vector<std::string> known;
  for (const OptionInfo& option : option_table()) {
    if (!option.ini_key.empty()) known.emplace_back(option.ini_key);
  }
  const std::string meant = nearest(entry.key, known);
  return Error{Code::kInvalidArgument,
               str_cat("`", file.path, "` line ", entry.line, ": unknown key `", entry.key, "`"),
               meant.empty() ? "`refrain config show` lists all keys"
                             : str_cat("did you mean `", meant, "`?"),
               entry.key};
}

Result<void> apply_file(const IniFile& file, std::map<std::string_view, Setting>& settings) {
  std::map<std::string, std::size_t> first_line;
  for (const IniEntry& entry : file.entries) {
    const OptionInfo* option = find_ini_key(entry.key);
    if (option == nullptr) return unknown_key(file, entry);
    Setting& setting = settings[option->flag];
    const std::string origin = str_cat(file.path, " line ", entry.line);
    const auto [at, is_new] = first_line.emplace(entry.key, entry.line);
    if (!is_new && option->kind != OptionKind::kList) {
      return Error{Code::kInvalidArgument,
                   str_cat("`", file.path, "` line ", entry.line, ": `", entry.key,
                           "` stands already in line ", at->second),
                   "remove one of the two", entry.key};
    }
    RETURN_IF_ERROR(check_value(*option, entry.value, str_cat(origin, " (", entry.key, ")")));
    if (is_new) setting.values.clear();
    setting.values.push_back(entry.value);
    setting.source = Source::kFile;
    setting.origin = origin;
  }
  return {};
}

Result<void> apply_environment(const Environment& environment,
                               std::map<std::string_view, Setting>& settings) {
  for (const OptionInfo& option : option_table()) {
    const std::string name = env_name(option);
    const std::string value = name.empty() ? "" : environment(name);
    if (value.empty()) continue;
    std::vector<std::string> values = {value};
    if (option.kind == OptionKind::kList) {
      values.clear();
      for (const std::string_view part : split(value, ',')) values.emplace_back(trim(part));
    }
    for (const std::string& part : values) RETURN_IF_ERROR(check_value(option, part, name));
    settings[option.flag] = {.option = &option,
                             .values = std::move(values),
                             .source = Source::kEnvironment,
                             .origin = name};
  }
  return {};
}

Result<void> apply_flags(const CommandLine& line, std::map<std::string_view, Setting>& settings) {
  for (const auto& [flag, values] : line.flags) {
    const OptionInfo* option = find_option(flag);
    CHECK(option != nullptr, "the parser returned a flag that is not in the table");
    for (const std::string& value : values) RETURN_IF_ERROR(check_value(*option, value, flag));
    settings[option->flag] = {
        .option = option, .values = values, .source = Source::kFlag, .origin = flag};
  }
  return {};
}

// Options of that source that stand for another's values set it, as if it were given in their
// place. A weaker source gives way; within one source both must say the same.
Result<void> apply_stand_ins(Source source, std::map<std::string_view, Setting>& settings) {
  for (const OptionInfo& option : option_table()) {
    const Setting& given = settings[option.flag];
    if (option.stands_for.empty() || given.source != source) continue;
    const auto words = split(option.stands_for, ' ');
    const std::string value(parse_bool(given.values.front()).value() ? words[1] : words[2]);
    Setting& target = settings.at(words[0]);
    if (target.source != source) {
      target = {
          .option = target.option, .values = {value}, .source = source, .origin = given.origin};
    } else if (target.values.front() != value) {
      return Error{
          Code::kInvalidArgument,
          str_cat(given.origin, ": ", option.flag, " ", given.values.front(), " means ", words[0],
                  " ", value, ", but ", target.origin, " says ", target.values.front()),
          str_cat("leave out ", option.flag, " (", option.ini_key, ")"), std::string(option.flag)};
    }
  }
  return {};
}

}  // namespace

Result<bool> parse_bool(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const std::string_view yes : {"true", "on", "yes", "1"}) {
    if (lower == yes) return true;
  }
  for (const std::string_view no : {"false", "off", "no", "0"}) {
    if (lower == no) return false;
  }
  return Error{Code::kInvalidArgument, "not true or false"};
}

Result<void> check_value(const OptionInfo& option, const std::string& value,
                         const std::string& origin) {
  switch (option.kind) {
    case OptionKind::kText:
    case OptionKind::kList:
      if (option.kind == OptionKind::kList && value.empty())
        return bad_value(option, value, origin, "allowed to be empty");
      return {};
    case OptionKind::kBool:
      if (!parse_bool(value).ok()) return bad_value(option, value, origin, "true or false");
      return {};
    case OptionKind::kChoice: {
      for (const std::string_view choice : split(option.choices, '|')) {
        if (choice == value) return {};
      }
      std::string choices(option.choices);
      for (std::size_t at = 0; (at = choices.find('|', at)) != std::string::npos; at += 2)
        choices.replace(at, 1, ", ");
      if (option.flag == "--kv-format" && value.find('/') != std::string::npos) {
        choices += " (keys/values; keys never have fewer bits than values)";
      }
      return bad_value(option, value, origin, str_cat("one of: ", choices));
    }
    case OptionKind::kInteger: {
      const auto number = parse_integer(value);
      if (number.ok() && in_range(option, static_cast<double>(*number))) {
        if (option.flag == "--block-size" && *number % 16 != 0) {
          return bad_value(option, value, origin, "a multiple of 16");
        }
        return {};
      }
      return bad_value(option, value, origin, str_cat("a whole number ", range_text(option)));
    }
    case OptionKind::kReal: {
      const auto number = parse_real(value);
      if (number.ok() && in_range(option, *number)) return {};
      return bad_value(option, value, origin, str_cat("a number ", range_text(option)));
    }
    case OptionKind::kCount: {
      const auto number = parse_count(value);
      if (number.ok() && in_range(option, *number)) return {};
      return bad_value(option, value, origin,
                       number.ok() ? str_cat("a count ", range_text(option))
                                   : "a count such as 7B, 135M or 8030261248");
    }
    case OptionKind::kRate: {
      const auto number = parse_rate(value);
      if (number.ok() && in_range(option, *number)) return {};
      return bad_value(option, value, origin,
                       number.ok() ? str_cat("a rate ", range_text(option), " bytes/s")
                                   : "a rate such as 27GB/s or 500MB/s");
    }
    case OptionKind::kSize: {
      if (option.default_text == "auto" && value == "auto") return {};
      const auto bytes = parse_size(value);
      if (bytes.ok() && in_range(option, static_cast<double>(*bytes))) return {};
      return bad_value(option, value, origin,
                       bytes.ok() ? str_cat("a size ", range_text(option), " bytes")
                                  : "a size such as 4GiB, 512MiB or 8k");
    }
  }
  return {};
}

Result<Settings> Settings::resolve(const CommandLine& line, const Environment& environment) {
  Settings made;
  made.command_ = line.command;
  made.arguments_ = line.arguments;
  made.environment_ = environment;
  for (const OptionInfo& option : option_table()) {
    Setting setting{.option = &option, .values = {}, .source = Source::kDefault, .origin = {}};
    if (option.kind != OptionKind::kList) setting.values.emplace_back(option.default_text);
    made.settings_[option.flag] = std::move(setting);
  }
  std::string path = environment("REFRAIN_CONFIG");
  if (const auto given = line.flags.find("--config"); given != line.flags.end())
    path = given->second.back();
  if (!path.empty()) {
    ASSIGN_OR_RETURN(const IniFile file, read_ini(path));
    RETURN_IF_ERROR(apply_file(file, made.settings_));
    RETURN_IF_ERROR(apply_stand_ins(Source::kFile, made.settings_));
  }
  RETURN_IF_ERROR(apply_environment(environment, made.settings_));
  RETURN_IF_ERROR(apply_stand_ins(Source::kEnvironment, made.settings_));
  RETURN_IF_ERROR(apply_flags(line, made.settings_));
  RETURN_IF_ERROR(apply_stand_ins(Source::kFlag, made.settings_));
  return made;
}

const Setting& Settings::setting(std::string_view flag) const {
  const auto found = settings_.find(flag);
  CHECK(found != settings_.end(), flag);
  return found->second;
}

const std::string& Settings::text(std::string_view flag) const {
  const Setting& found = setting(flag);
  CHECK(found.option->kind == OptionKind::kText || found.option->kind == OptionKind::kChoice, flag);
  return found.values.front();
}

std::int64_t Settings::integer(std::string_view flag) const {
  const Setting& found = setting(flag);
  CHECK(found.option->kind == OptionKind::kInteger, flag);
  return parse_integer(found.values.front()).value();
}

double Settings::real(std::string_view flag) const {
  const Setting& found = setting(flag);
  const std::string& value = found.values.front();
  if (found.option->kind == OptionKind::kCount) return parse_count(value).value();
  if (found.option->kind == OptionKind::kRate) return parse_rate(value).value();
  CHECK(found.option->kind == OptionKind::kReal, flag);
  return parse_real(value).value();
}

std::uint64_t Settings::size(std::string_view flag) const {
  const Setting& found = setting(flag);
  CHECK(found.option->kind == OptionKind::kSize, flag);
  return found.values.front() == "auto" ? 0 : parse_size(found.values.front()).value();
}

bool Settings::boolean(std::string_view flag) const {
  const Setting& found = setting(flag);
  CHECK(found.option->kind == OptionKind::kBool, flag);
  return parse_bool(found.values.front()).value();
}

const std::vector<std::string>& Settings::list(std::string_view flag) const {
  const Setting& found = setting(flag);
  CHECK(found.option->kind == OptionKind::kList, flag);
  return found.values;
}

bool Settings::is_set(std::string_view flag) const {
  return setting(flag).source != Source::kDefault;
}

Result<std::vector<std::uint32_t>> parse_token_counts(const std::string& text,
                                                      std::string_view flag, std::uint32_t minimum,
                                                      std::uint32_t maximum) {
  std::vector<std::uint32_t> counts;
  for (const std::string_view part : split(text, ',')) {
    const auto number = parse_integer(trim(part));
    if (!number.ok() || *number < minimum || *number > maximum || counts.size() >= 64) {
      return Error{Code::kInvalidArgument,
                   str_cat(flag, ": `", to_valid_utf8(part), "` is not a count from ", minimum,
                           " to ", maximum),
                   str_cat("write counts with commas, e.g. ", flag, " ", minimum, ",", 2 * minimum),
                   std::string(flag)};
    }
    counts.push_back(static_cast<std::uint32_t>(*number));
  }
  return counts;
}

}  // namespace refrain::cli
