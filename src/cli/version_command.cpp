// `refrain version`. Main thread.
#include <nlohmann/json.hpp>

#include "base/str.h"
#include "cli/commands.h"

namespace refrain::cli {

Exit run_version(const Settings& settings, Console& console) {
  const std::string compiler = str_cat("C++ ", __cplusplus / 100, ", ", __VERSION__);
  if (settings.boolean("--json")) {
    console.out(
        nlohmann::ordered_json{{"version", REFRAIN_VERSION}, {"compiler", compiler}}.dump(2) +
        "\n");
  } else {
    console.out(str_cat("refrain ", REFRAIN_VERSION, "\n"));
  }
  return Exit::kOk;
}

}  // namespace refrain::cli
