// `refrain calibrate`: measures what moved text costs on this model and KV format, and keeps it, so
// that the server may reuse text approximately and say how far off it is. Main thread.
#include <array>
#include <cstdio>

#include "base/str.h"
#include "cli/calibration.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/reuse_bench.h"
#include "cli/reuse_input.h"
#include "cli/runtime.h"

namespace refrain::cli {
namespace {

std::string rounded(double value, int digits) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

void say_result(const Calibration& calibration, const std::string& path, Console& console) {
  const model::ReuseGate gate = calibration.gate();
  for (const model::ContextChange change : model::kContextChanges) {
    if (!gate.measures(change))
      console.warn(str_cat("none of the cases has ", model::name_of(change),
                           " context: such prompts will be computed, as `uncalibrated`"),
                   "give longer cases of that kind (--data)");
    for (const model::RepairRung rung : model::kRepairRungs) {
      if (const auto& slope = model::ReuseGate::slope_of(calibration.slopes, change, rung))
        console.out(str_cat(model::name_of(change), ", rung ", static_cast<int>(rung), " ",
                            model::name_of(rung), ": ", rounded(*slope, 3),
                            " nats per exposure\n"));
    }
  }
  const HeldBack& held = calibration.held_back;
  console.out(str_cat("held back: ", held.cases, " cases, mean KL ", rounded(held.kl_mean, 4),
                      " nats where ", rounded(held.estimate_mean, 4), " were estimated\n"));
  console.out(str_cat("likeliest token another one: ", rounded(100.0 * held.changed, 1),
                      " % of their rows where ", rounded(100.0 * held.changed_estimate, 1),
                      " % were estimated\n"));
  console.out(str_cat("written to ", path, "\n"));
}

Result<void> run(const Settings& settings, Console& console) {
  ASSIGN_OR_RETURN(const std::vector<ReuseCase> cases, reuse_cases(settings));
  ASSIGN_OR_RETURN(LoadedModel loaded, LoadedModel::load(settings, console));
  ASSIGN_OR_RETURN(Compute compute, Compute::create(std::move(loaded), settings, console));
  ASSIGN_OR_RETURN(const std::string path,
                   calibration_path(settings.text("--calibration"), settings.environment(),
                                    compute.cache_root()));
  ReuseOptions options = reuse_options(settings);
  options.checks = false;
  options.rungs = {model::RepairRung::kMoved, model::RepairRung::kHeads,
                   model::RepairRung::kAttended, model::RepairRung::kMore};
  ASSIGN_OR_RETURN(const auto bench, ReuseBench::create(compute, options));
  ASSIGN_OR_RETURN(const std::vector<ReuseResult> results, measure_cases(*bench, cases, console));
  ASSIGN_OR_RETURN(const Calibration calibration, calibrate(results));
  RETURN_IF_ERROR(save_calibration(path, calibration_subject(compute), calibration));
  say_result(calibration, path, console);
  return {};
}

}  // namespace

Exit run_calibrate(const Settings& settings, Console& console) {
  const Result<void> done = run(settings, console);
  console.end_progress();
  return done.ok() ? Exit::kOk : fail(done.error(), console);
}

}  // namespace refrain::cli
