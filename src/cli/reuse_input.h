// What `eval reuse` and `calibrate` have in common: their cases and options from the settings, and
// measuring all cases with progress. Main thread.
#pragma once

#include <vector>

#include "base/result.h"
#include "cli/console.h"
#include "cli/reuse_bench.h"
#include "cli/reuse_cases.h"
#include "cli/settings.h"

namespace refrain::cli {

// Of --data, or generated.
Result<std::vector<ReuseCase>> reuse_cases(const Settings& settings);
// Without rungs.
ReuseOptions reuse_options(const Settings& settings);
// An error names the case.
Result<std::vector<ReuseResult>> measure_cases(ReuseBench& bench,
                                               const std::vector<ReuseCase>& cases,
                                               Console& console);

}  // namespace refrain::cli
