// `refrain eval reuse`: what reusing text at another place costs in error and saves in time, rung
// by rung. Main thread.
#include <optional>

#include "base/str.h"
#include "cli/calibration.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/reuse_bench.h"
#include "cli/reuse_input.h"
#include "cli/reuse_report.h"
#include "cli/runtime.h"

namespace refrain::cli {
namespace {

ReuseOptions options_of(const Settings& settings, const std::optional<model::ReuseGate>& gate) {
  ReuseOptions options = reuse_options(settings);
  options.gate = gate ? &*gate : nullptr;
  options.max_divergence = settings.real("--max-divergence");
  options.max_changed_first_tokens = settings.real("--max-changed-first-tokens");
  if (settings.text("--mode") == "splice") {
    options.rungs = {model::RepairRung::kMoved};
  } else if (settings.text("--mode") == "repair") {
    options.rungs.assign(std::begin(model::kRepairRungs), std::end(model::kRepairRungs));
  }
  return options;
}

Result<std::vector<ReuseCase>> cases_of(const Settings& settings) {
  ASSIGN_OR_RETURN(std::vector<ReuseCase> cases, reuse_cases(settings));
  if (!settings.text("--data").empty()) return cases;
  const auto seed = static_cast<std::uint64_t>(settings.integer("--seed"));
  const auto count = [&](std::string_view flag) {
    return static_cast<std::size_t>(settings.integer(flag));
  };
  for (ReuseCase& one : generate_changed_cases(seed, count("--changed")))
    cases.push_back(std::move(one));
  for (ReuseCase& one : generate_copied_cases(seed, count("--copied")))
    cases.push_back(std::move(one));
  for (ReuseCase& one : generate_next_turn_cases(seed, count("--next-turns")))
    cases.push_back(std::move(one));
  if (cases.empty())
    return Error{Code::kInvalidArgument, "there is nothing to measure",
                 "ask for cases with --cases, --changed, --copied or --next-turns", "--cases"};
  return cases;
}

// As the server would have it; mode splice has none.
Result<std::optional<model::ReuseGate>> gate_of(const Settings& settings, const Compute& compute) {
  if (settings.text("--mode") == "splice") return std::optional<model::ReuseGate>{};
  ASSIGN_OR_RETURN(const std::optional<Calibration> found, find_calibration(settings, compute));
  if (!found && settings.text("--mode") == "gate")
    return Error{Code::kNotFound, "there is no gate: this model and KV format are not calibrated",
                 "run `refrain calibrate` with the same --model and --kv-format", "--mode"};
  if (!found) return std::optional<model::ReuseGate>{};
  return std::optional<model::ReuseGate>(found->gate());
}

// True if what must be exact is.
Result<bool> evaluate(const Settings& settings, Console& console) {
  ASSIGN_OR_RETURN(const std::vector<ReuseCase> cases, cases_of(settings));
  if (settings.boolean("--print-cases")) {
    for (const ReuseCase& one : cases) console.out(case_line(one) + "\n");
    return true;
  }
  ASSIGN_OR_RETURN(LoadedModel loaded, LoadedModel::load(settings, console));
  ASSIGN_OR_RETURN(Compute compute, Compute::create(std::move(loaded), settings, console));
  ASSIGN_OR_RETURN(const std::optional<model::ReuseGate> gate, gate_of(settings, compute));
  const ReuseOptions options = options_of(settings, gate);
  ASSIGN_OR_RETURN(const auto bench, ReuseBench::create(compute, options));
  ASSIGN_OR_RETURN(const std::vector<ReuseResult> results, measure_cases(*bench, cases, console));
  const std::size_t inexact = inexact_cases(results);
  if (settings.boolean("--json")) {
    const std::string& data = settings.text("--data");
    console.out(
        reuse_json({.model = compute.loaded.name,
                    .numerics = compute.executor->numerics(),
                    .data = data.empty() ? "generated" : data,
                    .answer_rows = options.answer_rows,
                    .step_tokens = options.step_tokens,
                    .max_divergence = gate ? std::optional(options.max_divergence) : std::nullopt},
                   results));
  } else {
    console.out(reuse_text(reuse_figures(results)));
    console.out(
        inexact == 0
            ? "noise floor 0: full repair and each cold run in other chunks are the same bits\n"
            : str_cat(inexact, " cases differ where every bit must be the same\n"));
    if (gate) {
      console.out(str_cat("gate: at most ", options.max_divergence, " nats expected\n"));
    } else if (settings.text("--mode") != "splice") {
      console.out(
          "gate: not measured, this model and KV format are not calibrated; `refrain calibrate` "
          "does that\n");
    }
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
