// `refrain bench isolation`: options in, table or JSON out. Main thread.
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>

#include "base/str.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/isolation_bench.h"
#include "cli/serve_bench.h"

namespace refrain::cli {
namespace {

// The answered ones of one kind of request in one phase.
struct Phase {
  std::vector<double> ttft_ms, tpot_ms;
  std::size_t failed = 0;
  double prompt_tokens = 0, cached_tokens = 0, prompt_s = 0;

  explicit Phase(const std::vector<RequestSample>& samples) {
    for (const RequestSample& sample : samples) {
      if (!sample.error.empty() || sample.ttft_ms <= 0) {
        ++failed;
        continue;
      }
      ttft_ms.push_back(sample.ttft_ms);
      if (sample.tpot_ms > 0) tpot_ms.push_back(sample.tpot_ms);
      prompt_tokens += static_cast<double>(sample.prompt_tokens);
      cached_tokens += static_cast<double>(sample.cached_tokens);
      prompt_s += sample.ttft_ms / 1000;
    }
  }
  double mean_prompt_tokens() const {
    return ttft_ms.empty() ? 0 : prompt_tokens / static_cast<double>(ttft_ms.size());
  }
  double tokens_per_s() const { return prompt_s > 0 ? prompt_tokens / prompt_s : 0; }
  double cached_share() const { return prompt_tokens > 0 ? cached_tokens / prompt_tokens : 0; }
};

double ratio(double a, double b) {
  return b > 0 ? a / b : 0;
}

struct Summary {
  Phase short_alone, short_beside, long_alone, long_beside;
  double shared_tokens;

  explicit Summary(const IsolationBenchReport& report)
      : short_alone(report.short_alone),
        short_beside(report.short_beside),
        long_alone(report.long_alone),
        long_beside(report.long_beside),
        shared_tokens(static_cast<double>(report.least_prompt_tokens)) {}
  double ttft_ratio() const {
    return ratio(percentile(short_beside.ttft_ms, 0.95), percentile(short_alone.ttft_ms, 0.95));
  }
  double speed_kept() const { return ratio(long_beside.tokens_per_s(), long_alone.tokens_per_s()); }
  // More than the beginning that all chats of a template share.
  bool texts_were_cached() const {
    for (const Phase* phase : {&short_alone, &short_beside, &long_alone, &long_beside})
      if (phase->cached_share() * phase->mean_prompt_tokens() > shared_tokens) return true;
    return false;
  }
  bool complete() const {
    return !short_alone.ttft_ms.empty() && !short_beside.ttft_ms.empty() &&
           !long_alone.ttft_ms.empty() && !long_beside.ttft_ms.empty();
  }
};

nlohmann::ordered_json spread(const std::vector<double>& values) {
  return {{"p50", percentile(values, 0.50)}, {"p95", percentile(values, 0.95)}};
}

nlohmann::ordered_json phase_json(const Phase& phase) {
  return {{"answered", phase.ttft_ms.size()},
          {"failed", phase.failed},
          {"prompt_tokens", phase.mean_prompt_tokens()},
          {"cached_share", phase.cached_share()},
          {"ttft_ms", spread(phase.ttft_ms)},
          {"tpot_ms", spread(phase.tpot_ms)},
          {"prompt_tokens_per_s", phase.tokens_per_s()}};
}

std::string as_json(const IsolationBenchOptions& options, const Summary& summary) {
  const nlohmann::ordered_json json = {{"model", options.server.model},
                                       {"rate_per_s", options.rate_per_s},
                                       {"output_tokens", options.output_tokens},
                                       {"seed", options.seed},
                                       {"short_alone", phase_json(summary.short_alone)},
                                       {"short_beside", phase_json(summary.short_beside)},
                                       {"long_alone", phase_json(summary.long_alone)},
                                       {"long_beside", phase_json(summary.long_beside)},
                                       {"ttft_p95_ratio", summary.ttft_ratio()},
                                       {"long_speed_kept", summary.speed_kept()}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string phase_line(std::string_view name, const Phase& phase) {
  std::array<char, 160> line{};
  std::snprintf(
      line.data(), line.size(),
      "%-13s %4zu x %5.0f tokens   TTFT p50 %7.0f p95 %7.0f ms   TPOT p50 %6.1f p95 %6.1f "
      "ms\n",
      std::string(name).c_str(), phase.ttft_ms.size(), phase.mean_prompt_tokens(),
      percentile(phase.ttft_ms, 0.50), percentile(phase.ttft_ms, 0.95),
      percentile(phase.tpot_ms, 0.50), percentile(phase.tpot_ms, 0.95));
  return line.data();
}

std::string as_text(const IsolationBenchOptions& options, const Summary& summary) {
  std::array<char, 256> end{};
  std::snprintf(end.data(), end.size(),
                "short beside long: p95 TTFT x %.2f\n"
                "long beside short: %.0f of %.0f tokens/s (%.0f %%)\n",
                summary.ttft_ratio(), summary.long_beside.tokens_per_s(),
                summary.long_alone.tokens_per_s(), 100 * summary.speed_kept());
  std::string text =
      str_cat("model ", options.server.model, ", ", options.rate_per_s,
              " short requests a second of ", options.output_tokens,
              " generated tokens, --workload-seed ", options.seed, "\n");
  text += phase_line("short alone", summary.short_alone);
  text += phase_line("short beside", summary.short_beside);
  text += phase_line("long alone", summary.long_alone);
  text += phase_line("long beside", summary.long_beside);
  return text + end.data();
}

Result<IsolationBenchOptions> bench_options(const Settings& settings) {
  IsolationBenchOptions options;
  ASSIGN_OR_RETURN(options.server, bench_server(settings));
  const auto number = [&](std::string_view flag) {
    return static_cast<std::uint32_t>(settings.integer(flag));
  };
  options.short_tokens = number("--short-prompt");
  options.long_tokens = number("--long-prompt");
  options.rate_per_s = settings.real("--rate");
  options.requests = number("--requests");
  options.output_tokens = number("--output-tokens");
  // Another run on the same server must not find the texts of this one in its cache.
  options.seed = settings.is_set("--workload-seed")
                     ? static_cast<std::uint64_t>(settings.integer("--workload-seed"))
                     : std::random_device{}();
  return options;
}

}  // namespace

Exit run_bench_isolation(const Settings& settings, Console& console) {
  const Result<IsolationBenchOptions> options = bench_options(settings);
  if (!options.ok()) return fail(options.error(), console);
  const auto report = run_isolation_bench(
      *options, [&](double done) { console.progress("short and long requests", done); });
  console.end_progress();
  if (!report.ok()) return fail(report.error(), console);
  const Summary summary(*report);
  for (const auto* samples :
       {&report->short_alone, &report->short_beside, &report->long_alone, &report->long_beside})
    for (const RequestSample& sample : *samples)
      if (!sample.error.empty()) console.warn(str_cat("a request failed: ", sample.error));
  if (summary.texts_were_cached())
    console.warn("prompts were found in the server's cache: the times are not those of new ones",
                 "leave --workload-seed out, or start the server anew");
  console.out(settings.boolean("--json") ? as_json(*options, summary) : as_text(*options, summary));
  return summary.complete() ? Exit::kOk : Exit::kFailed;
}

}  // namespace refrain::cli
