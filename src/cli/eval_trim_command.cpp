// `refrain eval trim`: what each policy for cutting a context down keeps of it. Main thread.
#include "base/str.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/runtime.h"
#include "cli/trim_bench.h"
#include "cli/trim_cases.h"
#include "cli/trim_report.h"
#include "serve/reuse_words.h"

namespace refrain::cli {
namespace {

constexpr std::uint32_t kLargestRatio = 64;

Result<std::vector<const model::TrimPolicy*>> policies_of(const Settings& settings) {
  std::vector<const model::TrimPolicy*> policies;
  for (const std::string_view word : split(settings.text("--trim-policies"), ',')) {
    const model::TrimPolicy* policy = model::trim_policy_named(trim(word));
    if (policy == nullptr)
      return Error{
          Code::kInvalidArgument, str_cat("`", to_valid_utf8(std::string(word)), "` is no policy"),
          str_cat("--trim-policies takes ", serve::trim_policy_words(", ")), "--trim-policies"};
    if (policy->look != model::TrimLook::kNone && settings.text("--kernels") == "ggml")
      return Error{Code::kInvalidArgument,
                   str_cat("`", policy->name, "` needs attention, which ggml's kernels hide"),
                   "leave out --kernels ggml, or measure --trim-policies window alone",
                   "--trim-policies"};
    policies.push_back(policy);
  }
  return policies;
}

Result<void> evaluate(const Settings& settings, Console& console) {
  const auto number = [&](std::string_view flag) {
    return static_cast<std::size_t>(settings.integer(flag));
  };
  TrimOptions options{.step_tokens = static_cast<std::uint32_t>(number("--step-tokens")),
                      .questions = number("--questions")};
  ASSIGN_OR_RETURN(options.policies, policies_of(settings));
  ASSIGN_OR_RETURN(options.ratios,
                   parse_token_counts(settings.text("--ratios"), "--ratios", 2, kLargestRatio));
  const std::vector<TrimCase> cases = generate_trim_cases(
      static_cast<std::uint64_t>(settings.integer("--seed")),
      std::max<std::size_t>(1, number("--cases")), number("--pairs"), number("--filler"));
  ASSIGN_OR_RETURN(LoadedModel loaded, LoadedModel::load(settings, console));
  ASSIGN_OR_RETURN(Compute compute, Compute::create(std::move(loaded), settings, console));
  ASSIGN_OR_RETURN(const auto bench, TrimBench::create(compute, options));
  std::vector<std::vector<TrimResult>> results;
  double tokens = 0;
  for (const TrimCase& one : cases) {
    console.progress("measuring",
                     static_cast<double>(results.size()) / static_cast<double>(cases.size()));
    ASSIGN_OR_RETURN(auto measured, bench->measure(one));
    tokens += measured.front().context_tokens;
    results.push_back(std::move(measured));
  }
  console.end_progress();
  const std::vector<TrimFigures> figures = trim_figures(results);
  const TrimSubject subject{.model = compute.loaded.name,
                            .numerics = compute.executor->numerics(),
                            .cases = cases.size(),
                            .pairs = number("--pairs"),
                            .filler = number("--filler"),
                            .context_tokens = tokens / static_cast<double>(cases.size())};
  if (settings.boolean("--json")) {
    console.out(trim_json(subject, figures));
  } else {
    console.out(trim_text(figures));
    console.out(str_cat(cases.size(), " contexts of about ",
                        static_cast<std::size_t>(subject.context_tokens), " tokens, ",
                        figures.front().questions, " questions, asked after the cut\n"));
  }
  return {};
}

}  // namespace

Exit run_eval_trim(const Settings& settings, Console& console) {
  const Result<void> done = evaluate(settings, console);
  console.end_progress();
  return done.ok() ? Exit::kOk : fail(done.error(), console);
}

}  // namespace refrain::cli
