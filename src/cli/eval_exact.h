// Exactness as a measurement: trials over the given kinds of executors and every KV format in turn.
// The command `refrain eval exact` and the property tests run it. Main thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/commands.h"
#include "cli/exact_findings.h"
#include "cli/exact_reference.h"

namespace refrain::cli {

struct ExecutorKind {
  std::string name;
  ExecutorFactory make;
};
std::vector<ExecutorKind> executor_kinds();

struct ExactOptions {
  std::uint64_t seed = 0;
  std::uint64_t first_trial = 1;
  std::uint64_t trials = 20;
  std::uint32_t token_budget = 640;  // see TrialLimits
};

struct ExactFailure {
  std::uint64_t trial = 0;
  Findings findings;
};

struct ExactReport {
  std::uint64_t trials = 0;
  std::vector<ExactFailure> failures;
  Coverage coverage;  // over all trials

  std::uint64_t equal() const { return trials - failures.size(); }
};

// Runs after each trial; `done` of them have run.
using OnTrial = std::function<void(std::uint64_t done, const ExactReport& so_far)>;

// Errors are those of the machine (memory, a back end that fails); differences are in the report.
Result<ExactReport> check_exactness(const model::Model& model, const text::Tokenizer& tokenizer,
                                    std::span<const ExecutorKind> kinds,
                                    const ExactOptions& options, const OnTrial& on_trial = {});

// The command over given kinds of executors.
Exit eval_exact(const Settings& settings, Console& console, std::span<const ExecutorKind> kinds);

}  // namespace refrain::cli
