// Help and reference from the tables. Any thread.
#include "cli/help.h"

#include <algorithm>
#include <vector>

#include "base/str.h"
#include "cli/commands.h"
#include "cli/options.h"

namespace refrain::cli {
namespace {

constexpr std::size_t kWidth = 96;

// `text` in lines of at most kWidth, each behind `indent` blanks.
std::string wrapped(std::string_view text, std::size_t indent) {
  std::string lines;
  std::size_t column = indent;
  bool first = true;
  for (const std::string_view word : split(text, ' ')) {
    if (!first && column + 1 + word.size() > kWidth) {
      lines += str_cat("\n", std::string(indent, ' '));
      column = indent;
    } else if (!first) {
      lines += ' ';
      ++column;
    }
    lines += word;
    column += word.size();
    first = false;
  }
  return lines;
}

std::string value_name(const OptionInfo& option) {
  switch (option.kind) {
    case OptionKind::kBool:
      return "";
    case OptionKind::kChoice:
      return str_cat(" ", option.choices);
    case OptionKind::kInteger:
      return option.unit == "s" ? " SECONDS" : " N";
    case OptionKind::kReal:
      return " NUMBER";
    case OptionKind::kSize:
      return " SIZE";
    case OptionKind::kCount:
      return " COUNT";
    case OptionKind::kRate:
      return " RATE";
    case OptionKind::kText:
    case OptionKind::kList:
      return " TEXT";
  }
  return "";
}

// "--max-context, --ctx-size, -c N" or "--prefix-cache, --no-prefix-cache".
std::string spelling(const OptionInfo& option) {
  std::string names(option.flag);
  for (const std::string_view alias : split(option.aliases, ' ')) {
    if (!alias.empty()) names += str_cat(", ", alias);
  }
  if (option.kind == OptionKind::kBool && option.default_text == "true") {
    names += str_cat(", --no-", option.flag.substr(2));
  }
  return names + value_name(option);
}

std::string described(const OptionInfo& option) {
  std::string text(option.help);
  std::vector<std::string> extras;
  if (!option.default_text.empty() &&
      !(option.kind == OptionKind::kBool && option.default_text == "false")) {
    const bool unit = option.unit == "tokens" || option.unit == "blocks" || option.unit == "s";
    extras.push_back(
        str_cat("default ", option.default_text, unit ? str_cat(" ", option.unit) : ""));
  }
  if (extras.empty()) return text;
  text += " (";
  for (std::size_t i = 0; i < extras.size(); ++i) text += str_cat(i == 0 ? "" : "; ", extras[i]);
  return text + ")";
}

std::string option_block(const OptionInfo& option) {
  constexpr std::size_t kIndent = 6;
  std::string block = str_cat("  ", spelling(option), "\n", std::string(kIndent, ' '),
                              wrapped(described(option), kIndent), "\n");
  return block;
}

std::string command_lines(std::string_view prefix) {
  std::size_t width = 0;
  for (const CommandInfo& command : command_table()) {
    if (command.name.starts_with(prefix)) width = std::max(width, command.name.size());
  }
  std::string lines;
  for (const CommandInfo& command : command_table()) {
    if (!command.name.starts_with(prefix)) continue;
    lines += str_cat("  ", command.name, std::string(width - command.name.size() + 2, ' '),
                     wrapped(command.summary, width + 4), "\n");
  }
  return lines;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

std::string quoted(std::string_view text) {
  return text.empty() ? "" : str_cat("`", escaped(text), "`");
}

std::string document_row(const OptionInfo& option) {
  std::string flags = quoted(str_cat(option.flag, value_name(option)));
  for (const std::string_view alias : split(option.aliases, ' ')) {
    if (!alias.empty()) flags += str_cat(" ", quoted(alias));
  }
  if (option.kind == OptionKind::kBool)
    flags += str_cat(" ", quoted(str_cat("--no-", option.flag.substr(2))));
  const std::string meaning = escaped(option.help);
  std::string commands(option.commands == "*" ? "all" : option.commands);
  for (std::size_t at = 0; (at = commands.find(',', at)) != std::string::npos; at += 2)
    commands.replace(at, 1, ", ");
  return str_cat("| ", flags, " | ", quoted(option.ini_key), " | ", quoted(env_name(option)), " | ",
                 quoted(option.default_text), " | ", option.unit, " | ", commands, " | ", meaning,
                 " |\n");
}

}  // namespace

std::string program_help() {
  return str_cat(
      "Refrain serves language models and never computes the same context twice.\n\n"
      "usage: refrain COMMAND [OPTIONS]\n\n"
      "commands\n",
      command_lines(""),
      "\n`refrain COMMAND --help` lists the options of a command. Options may also stand in an INI "
      "file\n"
      "(--config FILE) or the environment (REFRAIN_...); `refrain config show` tells which value "
      "counts.\n"
      "`--model` may be left out everywhere: then the default model is used.\n\n"
      "exit codes: 0 success, 1 failure, 2 wrong usage\n");
}

std::string command_help(std::string_view name) {
  const CommandInfo* command = find_command(name);
  if (command == nullptr) {  // a group
    return str_cat("usage: refrain ", name, " ...\n\ncommands\n",
                   command_lines(str_cat(name, " ")));
  }
  std::string text =
      str_cat(wrapped(command->summary, 0), "\n\nusage: refrain ", name, " [OPTIONS]",
              command->argument.empty() ? "" : str_cat(" ", command->argument), "\n");
  if (!command->argument.empty()) {
    text +=
        str_cat("\n  ", command->argument, "\n      ", wrapped(command->argument_help, 6), "\n");
  }
  text += "\noptions\n";
  for (const OptionInfo& option : option_table()) {
    if (option.commands != "*" && counts_for(option, name)) text += option_block(option);
  }
  for (const OptionInfo& option : option_table()) {
    if (option.commands == "*") text += option_block(option);
  }
  text += "  --help, -h\n      show this help\n";
  return text;
}

std::string options_document() {
  std::string text =
      "# Options\n\n"
      "Made by `refrain config docs` from the option table; a test fails when this page differs "
      "from it.\n\n"
      "A value comes from the flag, else the environment, else the INI file (`--config FILE`), "
      "else the\n"
      "default. Every switch has a `--no-` form. Sizes are written `4GiB`, `512MB` or `8k`: units "
      "are binary\n"
      "(GB and GiB both mean 2^30). Counts such as `7B` and rates such as `27GB/s` are decimal. In "
      "the "
      "environment a list is written with commas; in the INI "
      "file its\n"
      "key is repeated. An INI key `cache.block_size` stands as `block_size` in section "
      "`[cache]`:\n\n"
      "```ini\n[server]\nmax_tokens = 2048\n\n[cache]\nenabled = true\nblock_size = 16\nmax_blocks "
      "= 4096\n"
      "policy = lru\n```\n\n"
      "`refrain config show` prints the values that count and where each came from.\n\n"
      "| flag | INI key | environment | default | unit | commands | meaning |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const OptionInfo& option : option_table()) text += document_row(option);
  text +=
      "\nFurther environment variables: `REFRAIN_MODEL_DIR` (folder with model files), "
      "`NO_COLOR`.\n\n"
      "## Commands\n\n| command | argument | meaning |\n|---|---|---|\n";
  for (const CommandInfo& command : command_table()) {
    text += str_cat("| `refrain ", command.name, "` | ", quoted(command.argument), " | ",
                    escaped(command.summary), " |\n");
  }
  return text;
}

}  // namespace refrain::cli
