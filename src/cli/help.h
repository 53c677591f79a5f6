// Text made from the tables of commands and options: `--help` and docs/reference/options.md.
// Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>

namespace refrain::cli {

std::string program_help();
// Also for a group such as "bench".
std::string command_help(std::string_view command);
// The whole of docs/reference/options.md.
std::string options_document();

}  // namespace refrain::cli
