#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace refrain {
namespace {

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> kInstance = [] {
    auto made = std::make_shared<spdlog::logger>(
        "refrain", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
    made->flush_on(spdlog::level::info);
    return made;
  }();
  return *kInstance;
}

}  // namespace

void set_log_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return logger().set_level(spdlog::level::debug);
    case LogLevel::kInfo:
      return logger().set_level(spdlog::level::info);
    case LogLevel::kWarn:
      return logger().set_level(spdlog::level::warn);
    case LogLevel::kError:
      return logger().set_level(spdlog::level::err);
    case LogLevel::kOff:
      return logger().set_level(spdlog::level::off);
  }
}

void log_debug(std::string_view line) {
  logger().log(spdlog::level::debug, "{}", line);
}
void log_info(std::string_view line) {
  logger().log(spdlog::level::info, "{}", line);
}
void log_warn(std::string_view line) {
  logger().log(spdlog::level::warn, "{}", line);
}
void log_error(std::string_view line) {
  logger().log(spdlog::level::err, "{}", line);
}

}  // namespace refrain
