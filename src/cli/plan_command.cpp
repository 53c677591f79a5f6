// `refrain plan`: the capacity planner (REQUIREMENTS B1, B2). Main thread.
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/plan_input.h"
#include "cli/plan_report.h"

namespace refrain::cli {
namespace {

Result<std::string> plan(const Settings& settings, Console& console) {
  ASSIGN_OR_RETURN(const PlanRequest request, read_plan_request(settings, console));
  ASSIGN_OR_RETURN(const capacity::Plan made, capacity::make_plan(request.input));
  return settings.boolean("--json") ? plan_json(request, made) : plan_text(request, made);
}

}  // namespace

Exit run_plan(const Settings& settings, Console& console) {
  const Result<std::string> text = plan(settings, console);
  console.end_progress();
  if (!text.ok()) return fail(text.error(), console);
  console.out(*text);
  return Exit::kOk;
}

}  // namespace refrain::cli
