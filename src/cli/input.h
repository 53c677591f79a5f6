// Small shared steps of the commands. Main thread.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/settings.h"

namespace refrain::cli {

// The arguments joined by blanks, or all of stdin if there are none or the only one is `-`.
// A final line break of stdin is dropped unless `exact`. kTooLarge over 64 MiB.
Result<std::string> argument_or_stdin(const Settings& settings, bool exact = false);

// Reports and gives the exit code that fits.
Exit fail(const Error& error, Console& console);

}  // namespace refrain::cli
