// The loop over trials. Main thread.
#include "cli/eval_exact.h"

#include <algorithm>

#include "base/check.h"
#include "cli/exact_run.h"

namespace refrain::cli {

std::vector<ExecutorKind> executor_kinds() {
  return {{"cpu", model::Executor::create_cpu}, {"ggml", model::Executor::create_ggml}};
}

Result<ExactReport> check_exactness(const model::Model& model, const text::Tokenizer& tokenizer,
                                    std::span<const ExecutorKind> kinds,
                                    const ExactOptions& options, const OnTrial& on_trial) {
  CHECK(!kinds.empty(), "no kind of executor to check");
  const TrialLimits limits{.vocabulary_size = model.shape().vocabulary_size,
                           .max_length = std::max(model.max_context(), 2U),
                           .token_budget = options.token_budget};
  ExactReport report;
  for (std::uint64_t i = 0; i < options.trials; ++i) {
    const TrialPlan plan = make_trial(options.seed, options.first_trial + i, limits);
    const std::span<const kernels::KvFormatInfo> formats = kernels::kv_formats();
    const kernels::KvFormatInfo& format = formats[plan.number % formats.size()];
    const ExecutorKind& kind = kinds[plan.number / formats.size() % kinds.size()];
    const ExactSubject subject{.model = &model,
                               .tokenizer = &tokenizer,
                               .executor_name = kind.name,
                               .make_executor = kind.make,
                               .format_name = format.name,
                               .format = format.format};
    ASSIGN_OR_RETURN(Findings findings, run_trial(subject, plan));
    ++report.trials;
    report.coverage.add(findings.coverage);
    if (!findings.clean()) report.failures.push_back({plan.number, std::move(findings)});
    if (on_trial) on_trial(i + 1, report);
  }
  return report;
}

}  // namespace refrain::cli
