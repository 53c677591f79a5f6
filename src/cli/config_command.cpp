// `refrain config show` and `refrain config docs`. Main thread.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/str.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/input.h"
#include "metrics/metrics_document.h"

namespace refrain::cli {
namespace {

std::string source_name(Source source) {
  switch (source) {
    case Source::kFlag:
      return "flag";
    case Source::kEnvironment:
      return "environment";
    case Source::kFile:
      return "file";
    case Source::kDefault:
      break;
  }
  return "default";
}

std::string shown(const Setting& setting) {
  if (setting.option->secret) {
    return setting.values.empty() || setting.values.front().empty() ? "" : "(set, not shown)";
  }
  std::string text;
  for (const std::string& value : setting.values) text += str_cat(text.empty() ? "" : ", ", value);
  return text;
}

nlohmann::ordered_json typed_value(const Settings& settings, const OptionInfo& option) {
  const Setting& setting = settings.setting(option.flag);
  if (option.secret) return shown(setting);
  switch (option.kind) {
    case OptionKind::kInteger:
      return settings.integer(option.flag);
    case OptionKind::kReal:
    case OptionKind::kCount:
    case OptionKind::kRate:
      return settings.real(option.flag);
    case OptionKind::kBool:
      return settings.boolean(option.flag);
    case OptionKind::kList:
      return setting.values;
    case OptionKind::kSize:
      if (setting.values.front() == "auto") return "auto";
      return settings.size(option.flag);
    case OptionKind::kText:
    case OptionKind::kChoice:
      break;
  }
  return setting.values.front();
}

nlohmann::ordered_json as_json(const Settings& settings) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::object();
  for (const OptionInfo& option : option_table()) {
    if (option.ini_key.empty()) continue;
    const Setting& setting = settings.setting(option.flag);
    nlohmann::ordered_json row = {{"value", typed_value(settings, option)},
                                  {"source", source_name(setting.source)},
                                  {"origin", setting.origin},
                                  {"flag", option.flag},
                                  {"environment", env_name(option)}};
    rows[std::string(option.ini_key)] = std::move(row);
  }
  return {{"settings", rows}};
}

std::string as_text(const Settings& settings) {
  std::size_t key_width = 0, value_width = 0;
  for (const OptionInfo& option : option_table()) {
    if (option.ini_key.empty()) continue;
    key_width = std::max(key_width, option.ini_key.size());
    value_width = std::max(value_width,
                           std::min<std::size_t>(40, shown(settings.setting(option.flag)).size()));
  }
  const auto padded = [](std::string text, std::size_t width) {
    if (text.size() < width) text.append(width - text.size(), ' ');
    return text;
  };
  std::string text;
  for (const OptionInfo& option : option_table()) {
    if (option.ini_key.empty()) continue;
    const Setting& setting = settings.setting(option.flag);
    text += str_cat(padded(std::string(option.ini_key), key_width), " = ",
                    padded(shown(setting), value_width), "  # ", source_name(setting.source),
                    setting.origin.empty() ? "" : str_cat(": ", setting.origin), "\n");
  }
  return text;
}

}  // namespace

Exit run_config_show(const Settings& settings, Console& console) {
  if (settings.boolean("--json")) {
    console.out(as_json(settings).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
                "\n");
  } else {
    console.out(as_text(settings));
  }
  return Exit::kOk;
}

Exit run_config_docs(const Settings& settings, Console& console) {
  const std::vector<std::string>& pages = settings.arguments();
  const std::string page = pages.empty() ? "options" : pages.front();
  if (pages.size() > 1 || (page != "options" && page != "metrics")) {
    return fail(Error{Code::kInvalidArgument, "no such page of docs/reference",
                      "refrain config docs [options|metrics]"},
                console);
  }
  console.out(page == "metrics" ? metrics::metrics_document() : options_document());
  return Exit::kOk;
}

}  // namespace refrain::cli
