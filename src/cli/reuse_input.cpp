// Cases and options. Main thread.
#include "cli/reuse_input.h"

#include "base/str.h"
#include "cli/files.h"

namespace refrain::cli {

Result<std::vector<ReuseCase>> reuse_cases(const Settings& settings) {
  const std::string& path = settings.text("--data");
  if (path.empty()) {
    return generate_reuse_cases(static_cast<std::uint64_t>(settings.integer("--seed")),
                                static_cast<std::size_t>(settings.integer("--cases")));
  }
  constexpr std::size_t kMaxFileBytes = std::size_t{64} << 20U;
  ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxFileBytes));
  return parse_reuse_cases(text);
}

ReuseOptions reuse_options(const Settings& settings) {
  return {.step_tokens = static_cast<std::uint32_t>(settings.integer("--step-tokens")),
          .answer_rows = static_cast<std::uint32_t>(settings.integer("--answer-rows")),
          .rungs = {}};
}

Result<std::vector<ReuseResult>> measure_cases(ReuseBench& bench,
                                               const std::vector<ReuseCase>& cases,
                                               Console& console) {
  std::vector<ReuseResult> results;
  results.reserve(cases.size());
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

}  // namespace refrain::cli
