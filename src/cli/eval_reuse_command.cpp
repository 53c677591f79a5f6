// `refrain eval reuse`: what reusing text at another place costs in error and saves in time, rung
// by rung. Main thread.
#include "base/str.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/reuse_bench.h"
#include "cli/reuse_input.h"
#include "cli/reuse_report.h"
#include "cli/runtime.h"

namespace refrain::cli {
namespace {

ReuseOptions options_of(const Settings& settings) {
  ReuseOptions options = reuse_options(settings);
  if (settings.text("--mode") == "splice") {
    options.rungs = {model::RepairRung::kMoved};
  } else {
    options.rungs.assign(std::begin(model::kRepairRungs), std::end(model::kRepairRungs));
  }
  return options;
}

// True if what must be exact is.
Result<bool> evaluate(const Settings& settings, Console& console) {
  ASSIGN_OR_RETURN(const std::vector<ReuseCase> cases, reuse_cases(settings));
  ASSIGN_OR_RETURN(LoadedModel loaded, LoadedModel::load(settings, console));
  ASSIGN_OR_RETURN(Compute compute, Compute::create(std::move(loaded), settings, console));
  const ReuseOptions options = options_of(settings);
  ASSIGN_OR_RETURN(const auto bench, ReuseBench::create(compute, options));
  ASSIGN_OR_RETURN(const std::vector<ReuseResult> results, measure_cases(*bench, cases, console));
  const std::size_t inexact = inexact_cases(results);
  if (settings.boolean("--json")) {
    const std::string& data = settings.text("--data");
    console.out(reuse_json({.model = compute.loaded.name,
                            .numerics = compute.executor->numerics(),
                            .data = data.empty() ? "generated" : data,
                            .answer_rows = options.answer_rows,
                            .step_tokens = options.step_tokens},
                           results));
  } else {
    console.out(reuse_text(reuse_figures(results)));
    console.out(inexact == 0
                    ? "noise floor 0: cold runs in other chunks and full repair are the same bits\n"
                    : str_cat(inexact, " cases differ where every bit must be the same\n"));
  }
  return inexact == 0;
}

}  // namespace

Exit run_eval_reuse(const Settings& settings, Console& console) {
  const Result<bool> exact = evaluate(settings, console);
  console.end_progress();
  if (!exact.ok()) return fail(exact.error(), console);
  return *exact ? Exit::kOk : Exit::kFailed;
}

}  // namespace refrain::cli
