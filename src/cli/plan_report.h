// The result of `refrain plan` as text and as JSON. Pure functions; any thread.
#pragma once

#include <string>

#include "capacity/planner.h"
#include "cli/plan_input.h"

namespace refrain::cli {

std::string plan_text(const PlanRequest& request, const capacity::Plan& plan);
// Numbers in bytes, tokens, FLOP and milliseconds; null where one is not known.
std::string plan_json(const PlanRequest& request, const capacity::Plan& plan);

}  // namespace refrain::cli
