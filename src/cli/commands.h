// The table of commands: name, argument and summary (commands.cpp, for parser and help), and the
// functions that run them (program.cpp). Main thread.
#pragma once

#include <span>
#include <string_view>

#include "cli/console.h"
#include "cli/settings.h"

namespace refrain::cli {

// Exit codes of the program.
enum class Exit { kOk = 0, kFailed = 1, kUsage = 2 };

struct CommandInfo {
  std::string_view name;      // "bench prefill"
  std::string_view argument;  // "[TEXT]"; "" = takes none
  std::string_view argument_help;
  std::string_view summary;
};

std::span<const CommandInfo> command_table();
const CommandInfo* find_command(std::string_view name);

// One file each: NAME_command.cpp.
Exit run_serve(const Settings& settings, Console& console);
Exit run_chat(const Settings& settings, Console& console);
Exit run_run(const Settings& settings, Console& console);
Exit run_tokenize(const Settings& settings, Console& console);
Exit run_config_show(const Settings& settings, Console& console);
Exit run_config_docs(const Settings& settings, Console& console);
Exit run_bench_prefill(const Settings& settings, Console& console);
Exit run_bench_decode(const Settings& settings, Console& console);
Exit run_bench_kernels(const Settings& settings, Console& console);
Exit run_bench_cache(const Settings& settings, Console& console);
Exit run_bench_isolation(const Settings& settings, Console& console);
Exit run_bench_serve(const Settings& settings, Console& console);
Exit run_eval_perplexity(const Settings& settings, Console& console);
Exit run_eval_reuse(const Settings& settings, Console& console);
Exit run_eval_kv(const Settings& settings, Console& console);
Exit run_eval_trim(const Settings& settings, Console& console);
Exit run_calibrate(const Settings& settings, Console& console);
Exit run_eval_exact(const Settings& settings, Console& console);
Exit run_plan(const Settings& settings, Console& console);
Exit run_version(const Settings& settings, Console& console);

// The whole program; `arguments` without the program's name. Returns the exit code.
int run_program(const std::vector<std::string>& arguments, const Environment& environment,
                Console& console);

}  // namespace refrain::cli
