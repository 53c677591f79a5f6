// Log lines: text on stderr, through spdlog (log.cpp only). Any thread. Prompts and keys never
// go into a log line. Example:  log_info(str_cat("loaded ", count, " tensors"));
#pragma once

#include <string_view>

namespace refrain {

enum class LogLevel { kDebug, kInfo, kWarn, kError, kOff };

void set_log_level(LogLevel level);
void log_debug(std::string_view line);
void log_info(std::string_view line);
void log_warn(std::string_view line);
void log_error(std::string_view line);

}  // namespace refrain
