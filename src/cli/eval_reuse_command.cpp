// `refrain eval reuse`: what reusing text at another place costs in error and saves in time, rung
// by rung. Main thread.
#include "base/str.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/reuse_bench.h"
#include "cli/reuse_report.h"
#include "cli/runtime.h"

namespace refrain::cli {
namespace {

Result<std::vector<ReuseCase>> cases_of(const Settings& settings) {
  const std::string& path = settings.text("--data");
  if (path.empty()) {
    return generate_reuse_cases(static_cast<std::uint64_t>(settings.integer("--seed")),
                                static_cast<std::size_t>(settings.integer("--cases")));
  }
  constexpr std::size_t kMaxFileBytes = std::size_t{64} << 20U;
  ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxFileBytes));
  return parse_reuse_cases(text);
}

ReuseOptions options_of(const Settings& settings) {
  ReuseOptions options{.step_tokens = static_cast<std::uint32_t>(settings.integer("--step-tokens")),
                       .answer_rows = static_cast<std::uint32_t>(settings.integer("--answer-rows")),
                       .rungs = {}};
  if (settings.text("--mode") == "splice") {
    options.rungs = {model::RepairRung::kMoved};
  } else {
    options.rungs.assign(std::begin(model::kRepairRungs), std::end(model::kRepairRungs));
  }
  return options;
}

Result<std::vector<ReuseResult>> measure(ReuseBench& bench, const std::vector<ReuseCase>& cases,
                                         Console& console) {
  std::vector<ReuseResult> results;
  for (const ReuseCase& one : cases) {
    console.progress(str_cat("case ", results.size() + 1, " of ", cases.size()),
                     static_cast<double>(results.size()) / static_cast<double>(cases.size()));
    Result<ReuseResult> result = bench.measure(one);
    if (!result.ok()) {
      Error error = result.error();
      error.message = str_cat("case ", results.size() + 1, ": ", error.message);
      return error;
    }
    results.push_back(std::move(result).value());
  }
  console.end_progress();
  return results;
}

// True if what must be exact is.
Result<bool> evaluate(const Settings& settings, Console& console) {
  ASSIGN_OR_RETURN(const std::vector<ReuseCase> cases, cases_of(settings));
  ASSIGN_OR_RETURN(LoadedModel loaded, LoadedModel::load(settings, console));
  ASSIGN_OR_RETURN(Compute compute, Compute::create(std::move(loaded), settings, console));
  const ReuseOptions options = options_of(settings);
  ASSIGN_OR_RETURN(const auto bench, ReuseBench::create(compute, options));
  ASSIGN_OR_RETURN(const std::vector<ReuseResult> results, measure(*bench, cases, console));
  const std::vector<KindFigures> figures = reuse_figures(results);
  const std::size_t inexact = inexact_cases(results);
  if (settings.boolean("--json")) {
    const std::string& data = settings.text("--data");
    console.out(reuse_json({.model = compute.loaded.name,
                            .numerics = compute.executor->numerics(),
                            .data = data.empty() ? "generated" : data,
                            .answer_rows = options.answer_rows,
                            .step_tokens = options.step_tokens},
                           figures, inexact));
  } else {
    console.out(reuse_text(figures));
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
