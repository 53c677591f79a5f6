// `refrain bench serve`: options in, table or JSON out. Main thread.
#include <array>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "base/str.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/serve_bench.h"

namespace refrain::cli {
namespace {

struct Summary {
  std::size_t answered = 0, failed = 0;
  std::vector<double> ttft_ms, tpot_ms, total_ms;
  std::uint64_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
  std::map<std::string, std::size_t> errors;

  double cached_share() const {
    return prompt_tokens > 0
               ? static_cast<double>(cached_tokens) / static_cast<double>(prompt_tokens)
               : 0;
  }
};

Summary summarise(const ServeBenchReport& report) {
  Summary summary;
  for (const RequestSample& sample : report.samples) {
    if (!sample.error.empty()) {
      ++summary.failed;
      ++summary.errors[sample.error];
      continue;
    }
    ++summary.answered;
    summary.total_ms.push_back(sample.total_ms);
    if (sample.ttft_ms > 0) summary.ttft_ms.push_back(sample.ttft_ms);
    if (sample.tpot_ms > 0) summary.tpot_ms.push_back(sample.tpot_ms);
    summary.prompt_tokens += sample.prompt_tokens;
    summary.cached_tokens += sample.cached_tokens;
    summary.completion_tokens += sample.completion_tokens;
  }
  return summary;
}

nlohmann::ordered_json spread(const std::vector<double>& values) {
  return {{"p50", percentile(values, 0.50)}, {"p99", percentile(values, 0.99)}};
}

std::string as_json(const ServeBenchOptions& options, const ServeBenchReport& report,
                    const Summary& summary) {
  const nlohmann::ordered_json json = {
      {"model", options.server.model},
      {"workload", options.workload},
      {"concurrency", options.concurrency},
      {"seed", options.seed},
      {"requests", report.samples.size()},
      {"answered", summary.answered},
      {"failed", summary.failed},
      {"wall_s", report.wall_s},
      {"ttft_ms", spread(summary.ttft_ms)},
      {"tpot_ms", spread(summary.tpot_ms)},
      {"total_ms", spread(summary.total_ms)},
      {"requests_per_s", static_cast<double>(summary.answered) / report.wall_s},
      {"output_tokens_per_s", static_cast<double>(summary.completion_tokens) / report.wall_s},
      {"prompt_tokens", summary.prompt_tokens},
      {"cached_tokens", summary.cached_tokens},
      {"completion_tokens", summary.completion_tokens},
      {"cached_share", summary.cached_share()},
      {"errors", summary.errors}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string spread_line(std::string_view name, const std::vector<double>& values) {
  std::array<char, 96> line{};
  std::snprintf(line.data(), line.size(), "%-18s p50 %9.1f ms   p99 %9.1f ms\n",
                std::string(name).c_str(), percentile(values, 0.50), percentile(values, 0.99));
  return line.data();
}

std::string as_text(const ServeBenchOptions& options, const ServeBenchReport& report,
                    const Summary& summary) {
  std::array<char, 512> totals{};
  std::snprintf(totals.data(), totals.size(),
                "throughput         %.2f requests/s, %.1f output tokens/s\n"
                "prompt tokens      %llu, of these cached %llu (%.1f %%)\n",
                static_cast<double>(summary.answered) / report.wall_s,
                static_cast<double>(summary.completion_tokens) / report.wall_s,
                static_cast<unsigned long long>(summary.prompt_tokens),
                static_cast<unsigned long long>(summary.cached_tokens),
                100.0 * summary.cached_share());
  return str_cat("workload ", options.workload, ", model ", options.server.model, ", ",
                 options.concurrency, " clients, ", summary.answered, " of ", report.samples.size(),
                 " requests answered\n", spread_line("TTFT", summary.ttft_ms),
                 spread_line("TPOT", summary.tpot_ms),
                 spread_line("whole request", summary.total_ms), totals.data());
}

Result<ServeBenchOptions> bench_options(const Settings& settings) {
  ServeBenchOptions options;
  ASSIGN_OR_RETURN(options.server, bench_server(settings));
  options.workload = settings.text("--workload");
  options.concurrency = static_cast<std::uint32_t>(settings.integer("--concurrency"));
  options.requests = static_cast<std::uint32_t>(settings.integer("--requests"));
  options.output_tokens = static_cast<std::uint32_t>(settings.integer("--output-tokens"));
  options.seed = static_cast<std::uint64_t>(settings.integer("--workload-seed"));
  return options;
}

}  // namespace

Exit run_bench_serve(const Settings& settings, Console& console) {
  const Result<ServeBenchOptions> options = bench_options(settings);
  if (!options.ok()) return fail(options.error(), console);
  const ServeBenchReport report = run_serve_bench(*options, [&](std::uint32_t done) {
    console.progress("requests", static_cast<double>(done) / options->requests);
  });
  console.end_progress();
  const Summary summary = summarise(report);
  for (const auto& [message, count] : summary.errors)
    console.warn(str_cat(count, " requests failed: ", message));
  console.out(settings.boolean("--json") ? as_json(*options, report, summary)
                                         : as_text(*options, report, summary));
  return summary.answered > 0 ? Exit::kOk : Exit::kFailed;
}

}  // namespace refrain::cli
