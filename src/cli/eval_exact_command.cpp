// `refrain eval exact`: proves on a model that neither chunks, batch mates, threads, block size,
// cache nor restarts change a bit of any logit. Main thread.
#include <nlohmann/json.hpp>

#include "base/str.h"
#include "cli/eval_exact.h"
#include "cli/input.h"
#include "cli/runtime.h"

namespace refrain::cli {
namespace {

using Json = nlohmann::ordered_json;

ExactOptions options_of(const Settings& settings) {
  const auto number = [&](std::string_view flag) {
    return static_cast<std::uint64_t>(settings.integer(flag));
  };
  return {.seed = number("--seed"),
          .first_trial = number("--first-trial"),
          .trials = number("--trials"),
          .token_budget = static_cast<std::uint32_t>(number("--trial-tokens"))};
}

// The command line that runs one trial again.
std::string repeat_command(const Settings& settings, std::uint64_t trial) {
  const std::string& model = settings.text("--model");
  return str_cat("refrain eval exact", model.empty() ? "" : " --model ", model, " --seed ",
                 settings.integer("--seed"), " --trial-tokens ", settings.integer("--trial-tokens"),
                 " --first-trial ", trial, " --trials 1");
}

std::string failure_text(const ExactFailure& failure, const Settings& settings) {
  const Findings& findings = failure.findings;
  std::string text;
  if (findings.first()) {
    text += str_cat("trial ", failure.trial, ": ", findings.rows_different(), " of ",
                    findings.coverage.rows_compared, " rows differ; first ",
                    describe(*findings.first()), "\n");
  }
  if (!findings.fault().empty())
    text += str_cat("trial ", failure.trial, ": ", findings.fault(), "\n");
  return text + str_cat("  repeat with: ", repeat_command(settings, failure.trial), "\n");
}

std::string summary_text(const ExactReport& report) {
  const Coverage& c = report.coverage;
  return str_cat(report.equal(), " of ", report.trials, " bitwise equal\n", c.rows_compared,
                 " rows compared; ", c.cached_tokens, " of ", c.prompt_tokens,
                 " prompt tokens reused, ", c.reply_rows, " of them written while generating; ",
                 c.copied_blocks, " blocks copied, ", c.evicted_blocks, " evicted; ",
                 c.rejected_rows, " rows rejected; ", c.restarts, " restarts; ", c.engine_trials,
                 " trials through the engine\n");
}

Json failure_json(const ExactFailure& failure, const Settings& settings) {
  const Findings& findings = failure.findings;
  Json json = {{"trial", failure.trial}, {"rows_different", findings.rows_different()}};
  if (findings.first()) {
    const Mismatch& first = *findings.first();
    json["first"] = {{"turn", first.place.turn},
                     {"position", first.place.position},
                     {"step", first.place.step},
                     {"row", first.place.row},
                     {"setting", first.setting},
                     {"token", first.token},
                     {"expected", first.expected},
                     {"expected_bits", float_bits(first.expected)},
                     {"actual", first.actual},
                     {"actual_bits", float_bits(first.actual)},
                     {"differing_values", first.differing_values}};
  }
  if (!findings.fault().empty()) json["fault"] = findings.fault();
  json["repeat"] = repeat_command(settings, failure.trial);
  return json;
}

Json report_json(const ExactReport& report, const LoadedModel& loaded,
                 std::span<const ExecutorKind> kinds, const Settings& settings) {
  const Coverage& c = report.coverage;
  Json executors = Json::array(), formats = Json::array(), failures = Json::array();
  for (const ExecutorKind& kind : kinds) executors.push_back(kind.name);
  for (const kernels::KvFormatInfo& format : kernels::kv_formats()) formats.push_back(format.name);
  for (const ExactFailure& failure : report.failures)
    failures.push_back(failure_json(failure, settings));
  return {{"model", loaded.name},
          {"executors", std::move(executors)},
          {"kv_formats", std::move(formats)},
          {"seed", settings.integer("--seed")},
          {"first_trial", settings.integer("--first-trial")},
          {"trials", report.trials},
          {"equal", report.equal()},
          {"coverage",
           {{"rows_compared", c.rows_compared},
            {"prompt_tokens", c.prompt_tokens},
            {"cached_tokens", c.cached_tokens},
            {"reply_rows_reused", c.reply_rows},
            {"copied_blocks", c.copied_blocks},
            {"evicted_blocks", c.evicted_blocks},
            {"rejected_rows", c.rejected_rows},
            {"restarts", c.restarts},
            {"engine_trials", c.engine_trials}}},
          {"failures", std::move(failures)}};
}

Result<bool> evaluate(const Settings& settings, Console& console,
                      std::span<const ExecutorKind> kinds) {
  ASSIGN_OR_RETURN(const LoadedModel loaded, LoadedModel::load(settings, console));
  const ExactOptions options = options_of(settings);
  const bool as_json = settings.boolean("--json");
  std::size_t told = 0;  // failures
  const auto on_trial = [&](std::uint64_t done, const ExactReport& so_far) {
    for (; !as_json && told < so_far.failures.size(); ++told)
      console.out(failure_text(so_far.failures[told], settings));
    console.progress(str_cat("trial ", done, " of ", options.trials),
                     static_cast<double>(done) / static_cast<double>(options.trials));
  };
  ASSIGN_OR_RETURN(const ExactReport report,
                   check_exactness(*loaded.model, *loaded.tokenizer, kinds, options, on_trial));
  console.end_progress();
  if (as_json) {
    console.out(report_json(report, loaded, kinds, settings)
                    .dump(2, ' ', false, Json::error_handler_t::replace) +
                "\n");
  } else {
    console.out(summary_text(report));
  }
  return report.failures.empty();
}

}  // namespace

Exit eval_exact(const Settings& settings, Console& console, std::span<const ExecutorKind> kinds) {
  const Result<bool> equal = evaluate(settings, console, kinds);
  console.end_progress();
  if (!equal.ok()) return fail(equal.error(), console);
  return *equal ? Exit::kOk : Exit::kFailed;
}

Exit run_eval_exact(const Settings& settings, Console& console) {
  // The kernels that --kernels names; the reference is slow and tried only when asked for.
  const std::string& kernels = settings.text("--kernels");
  std::vector<ExecutorKind> all = executor_kinds(), kinds;
  for (ExecutorKind& kind : all) {
    if ((kind.name == "ggml") == (kernels == "ggml")) kinds.push_back(std::move(kind));
  }
  if (kernels != "ggml") {
    const auto set = instruction_set(settings);
    if (!set.ok()) return fail(set.error(), console);
    kinds[0].make = [make = kinds[0].make, set = *set](const auto& model, auto& arena,
                                                       auto options) {
      options.instruction_set = set;
      return make(model, arena, options);
    };
  }
  return eval_exact(settings, console, kinds);
}

}  // namespace refrain::cli
