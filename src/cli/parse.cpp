// CLI11 behind our own messages: a CLI::App is made per call from the rows of the option table that
// count for the command; its exceptions end here. Main thread.
#include "cli/parse.h"

#include <CLI/CLI.hpp>

#include "base/str.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/suggest.h"

namespace refrain::cli {
namespace {

Error usage_error(std::string message, std::string hint, std::string field = {}) {
  return Error{Code::kInvalidArgument, std::move(message), std::move(hint), std::move(field)};
}

std::string help_hint(const std::string& command) {
  return command.empty() ? "see `refrain --help`" : str_cat("see `refrain ", command, " --help`");
}

// CLI11's name list: "--ctx-size,-c,--max-context,!--no-..." for the row.
std::string name_list(const OptionInfo& option) {
  std::string names(option.flag);
  for (const std::string_view alias : split(option.aliases, ' ')) {
    if (!alias.empty()) names += str_cat(",", alias);
  }
  if (option.kind == OptionKind::kBool) names += str_cat(",!--no-", option.flag.substr(2));
  return names;
}

// Flags a user of `command` may write, for suggestions.
std::vector<std::string> known_flags(const std::string& command) {
  std::vector<std::string> known = {"--help"};
  for (const OptionInfo& option : option_table()) {
    if (!counts_for(option, command)) continue;
    known.emplace_back(option.flag);
    if (option.kind == OptionKind::kBool) known.push_back(str_cat("--no-", option.flag.substr(2)));
    for (const std::string_view alias : split(option.aliases, ' ')) {
      if (!alias.empty()) known.emplace_back(alias);
    }
  }
  return known;
}

Error unknown_option(const std::string& word, const std::string& command) {
  const std::string flag = word.substr(0, word.find('='));
  std::string_view positive = flag;
  if (positive.starts_with("--no-")) positive.remove_prefix(3);
  const OptionInfo* other = find_option(flag);
  if (other == nullptr && positive.starts_with("-")) {
    other = find_option(str_cat("-", positive));  // "--no-json" -> "-json" -> "--json"
  }
  if (other != nullptr && !counts_for(*other, command)) {
    std::string commands(other->commands);
    for (std::size_t at = 0; (at = commands.find(',', at)) != std::string::npos; at += 2) {
      commands.replace(at, 1, ", ");
    }
    return usage_error(str_cat("`", flag, "` is no option of `refrain ", command, "`"),
                       str_cat("it belongs to: ", commands), flag);
  }
  const std::string meant = nearest(flag, known_flags(command));
  return usage_error(str_cat("unknown option `", to_valid_utf8(flag), "`"),
                     meant.empty() ? help_hint(command) : str_cat("did you mean `", meant, "`?"),
                     flag);
}

Error unknown_command(const std::string& word) {
  std::vector<std::string> known;
  for (const CommandInfo& command : command_table()) known.emplace_back(command.name);
  const std::string meant = nearest(word, known);
  return usage_error(
      str_cat("unknown command `", to_valid_utf8(word), "`"),
      meant.empty() ? help_hint("") : str_cat("did you mean `refrain ", meant, "`?"));
}

bool is_command_group(const std::string& word) {
  for (const CommandInfo& command : command_table()) {
    if (command.name.starts_with(word + " ")) return true;
  }
  return false;
}

std::string group_members(const std::string& group) {
  std::string members;
  for (const CommandInfo& command : command_table()) {
    if (command.name.starts_with(group + " "))
      members += str_cat(members.empty() ? "" : ", ", command.name);
  }
  return members;
}

bool is_help(const std::string& word) {
  return word == "--help" || word == "-h" || word == "help";
}

// Takes the command's words off the front; what is left goes to CLI11.
Result<CommandLine> take_command(std::vector<std::string>& rest) {
  CommandLine line;
  if (rest.empty()) return line;
  const std::string first = rest.front();
  rest.erase(rest.begin());
  if (is_help(first)) {
    line.help = true;
    if (rest.empty() || first != "help") return line;
    ASSIGN_OR_RETURN(line, take_command(rest));  // `refrain help serve`
    line.help = true;
    return line;
  }
  if (first == "--version" || first == "-V") {
    line.version = true;
    return line;
  }
  if (find_command(first) != nullptr) {
    line.command = first;
    return line;
  }
  if (is_command_group(first)) {
    if (rest.empty() || is_help(rest.front())) {
      line.help = !rest.empty();
      line.command = first;
      if (line.help) return line;
      return usage_error(str_cat("`refrain ", first, "` needs one more word"),
                         str_cat("one of: ", group_members(first)));
    }
    const std::string both = str_cat(first, " ", rest.front());
    if (find_command(both) == nullptr) {
      Error error = unknown_command(both);
      error.hint = str_cat("one of: ", group_members(first));
      return error;
    }
    rest.erase(rest.begin());
    line.command = both;
    return line;
  }
  if (first.starts_with("-")) {
    return usage_error(str_cat("`", to_valid_utf8(first), "` stands before the command"),
                       "write the command first, e.g. `refrain serve --port 9000`");
  }
  return unknown_command(first);
}

// Fills `line` from the words behind the command.
Result<void> parse_flags(const std::vector<std::string>& rest, CommandLine& line) {
  CLI::App app;
  app.set_help_flag();  // ours is made from the table
  app.allow_extras();
  app.add_flag("-h,--help", line.help);
  std::vector<std::pair<CLI::Option*, const OptionInfo*>> added;
  for (const OptionInfo& option : option_table()) {
    if (!counts_for(option, line.command)) continue;
    CLI::Option* made = nullptr;
    if (option.kind == OptionKind::kBool) {
      made = app.add_flag(name_list(option));
      made->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    } else {
      made = app.add_option(name_list(option));
      made->multi_option_policy(option.kind == OptionKind::kList
                                    ? CLI::MultiOptionPolicy::TakeAll
                                    : CLI::MultiOptionPolicy::TakeLast);
      made->expected(1)->allow_extra_args(false);
    }
    added.emplace_back(made, &option);
  }
  std::vector<std::string> reversed(rest.rbegin(), rest.rend());  // what CLI11 wants
  app.parse(reversed);
  for (const std::string& word : app.remaining()) {
    if (word == "--") continue;
    line.arguments.push_back(word);
  }
  for (const auto& [made, option] : added) {
    if (made->count() == 0) continue;
    line.flags[std::string(option->flag)] = made->reduced_results();
  }
  return {};
}

// Words after `--` are arguments whatever they look like; CLI11 sees only those before it.
Result<void> parse_words(const std::vector<std::string>& rest, CommandLine& line) {
  std::vector<std::string> before;
  std::size_t at = 0;
  while (at < rest.size() && rest[at] != "--") before.push_back(rest[at++]);
  try {
    RETURN_IF_ERROR(parse_flags(before, line));
  } catch (const CLI::Error& fault) {
    return usage_error(fault.what(), help_hint(line.command));
  }
  if (line.help) return {};
  for (const std::string& word : line.arguments) {
    if (word.size() > 1 && word.starts_with("-")) return unknown_option(word, line.command);
  }
  for (++at; at < rest.size(); ++at) line.arguments.push_back(rest[at]);
  return {};
}

}  // namespace

Result<CommandLine> parse_command_line(const std::vector<std::string>& words) {
  std::vector<std::string> rest = words;
  ASSIGN_OR_RETURN(CommandLine line, take_command(rest));
  const CommandInfo* command = find_command(line.command);
  if (command == nullptr || (line.help && rest.empty())) return line;
  RETURN_IF_ERROR(parse_words(rest, line));
  if (!line.help && command->argument.empty() && !line.arguments.empty()) {
    return usage_error(str_cat("`refrain ", line.command, "` takes no argument, got `",
                               to_valid_utf8(line.arguments.front()), "`"),
                       help_hint(line.command));
  }
  return line;
}

}  // namespace refrain::cli
