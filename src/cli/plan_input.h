// What `refrain plan` plans with: a model file's own numbers, or those given by hand, and the
// memory and the speed of a machine. Main thread.
#pragma once

#include <string>

#include "base/result.h"
#include "capacity/planner.h"
#include "cli/console.h"
#include "cli/settings.h"

namespace refrain::cli {

struct PlanRequest {
  std::string model;         // name of the file; "" = numbers given by hand
  std::string quantization;  // "Q4_1"; "" without a file
  capacity::PlanInput input;
  // Where budget and speeds come from, for people: "--memory", "measured with 2 threads"; why there
  // is no budget, if that has a reason.
  std::string budget_from;
  std::string bandwidth_from;
  std::string flop_from;
};

// Reads the metadata of the model, never its weights. kInvalidArgument naming the option that is
// missing, out of range or contradicts another; else the errors of the model file.
Result<PlanRequest> read_plan_request(const Settings& settings, Console& console);

}  // namespace refrain::cli
