// The way from words to an exit code. Main thread.
#include <array>

#include "base/check.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/help.h"

namespace refrain::cli {
namespace {

struct Runner {
  std::string_view command;
  Exit (*run)(const Settings&, Console&);
};

constexpr auto kRunners = std::to_array<Runner>({
    {"serve", run_serve},
    {"chat", run_chat},
    {"run", run_run},
    {"tokenize", run_tokenize},
    {"bench prefill", run_bench_prefill},
    {"bench decode", run_bench_decode},
    {"bench kernels", run_bench_kernels},
    {"bench serve", run_bench_serve},
    {"bench isolation", run_bench_isolation},
    {"bench cache", run_bench_cache},
    {"eval perplexity", run_eval_perplexity},
    {"eval exact", run_eval_exact},
    {"eval reuse", run_eval_reuse},
    {"eval kv", run_eval_kv},
    {"eval trim", run_eval_trim},
    {"calibrate", run_calibrate},
    {"plan", run_plan},
    {"config show", run_config_show},
    {"config docs", run_config_docs},
    {"version", run_version},
});

Exit run_command(std::string_view name, const Settings& settings, Console& console) {
  for (const Runner& runner : kRunners) {
    if (runner.command == name) return runner.run(settings, console);
  }
  CHECK(false, str_cat("command `", name, "` is in the table but nothing runs it"));
}

LogLevel log_level(const std::string& name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "warn") return LogLevel::kWarn;
  if (name == "error") return LogLevel::kError;
  if (name == "off") return LogLevel::kOff;
  return LogLevel::kInfo;
}

int report(const Error& error, Console& console) {
  console.error(error);
  return static_cast<int>(error.code == Code::kInvalidArgument ? Exit::kUsage : Exit::kFailed);
}

}  // namespace

int run_program(const std::vector<std::string>& arguments, const Environment& environment,
                Console& console) {
  const Result<CommandLine> line = parse_command_line(arguments);
  if (!line.ok()) return report(line.error(), console);
  const CommandInfo* command = find_command(line->version ? "version" : line->command);
  if (line->help) {
    console.out(line->command.empty() ? program_help() : command_help(line->command));
    return static_cast<int>(Exit::kOk);
  }
  if (command == nullptr) {
    console.say(program_help());
    console.error(
        Error{Code::kInvalidArgument, "no command given", "try `refrain chat` or `refrain serve`"});
    return static_cast<int>(Exit::kUsage);
  }
  const Result<Settings> settings = Settings::resolve(*line, environment);
  if (!settings.ok()) return report(settings.error(), console);
  set_log_level(log_level(settings->text("--log-level")));
  const Exit exit = run_command(command->name, *settings, console);
  // A reader that has seen enough (`refrain tokenize ... | head`) is no failure.
  if (console.out_closed() && exit == Exit::kFailed) return static_cast<int>(Exit::kOk);
  return static_cast<int>(exit);
}

}  // namespace refrain::cli
