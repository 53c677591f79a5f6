// The reference page of the metrics: one section for each kind, one row for each metric. Any
// thread.
#include "metrics/metrics_document.h"

#include <string_view>

#include "base/str.h"
#include "metrics/registry.h"

namespace refrain::metrics {
namespace {

std::string label_cell(const MetricInfo& info) {
  if (info.label.empty()) return "";
  std::string cell = str_cat("`", info.label, "`: ");
  std::string_view comma;
  for (const std::string_view value : info.label_values) {
    cell += str_cat(comma, "`", value, "`");
    comma = ", ";
  }
  return cell;
}

std::string bucket_cell(const MetricInfo& info) {
  std::string cell;
  for (const double bound : info.buckets) {
    // Token counts are exact: never 1.31072e+05.
    const auto whole = static_cast<long long>(bound);
    const bool is_whole = static_cast<double>(whole) == bound;
    cell += str_cat(cell.empty() ? "" : ", ", is_whole ? str_cat(whole) : str_cat(bound));
  }
  return cell;
}

std::string section(MetricKind kind, std::string_view title, std::string_view text) {
  const bool buckets = kind == MetricKind::kHistogram;
  std::string page = str_cat("\n## ", title, "\n\n", text, "\n\n| metric | meaning | ",
                             buckets ? "upper bounds of the buckets" : "label and its values",
                             " |\n|---|---|---|\n");
  for (const MetricInfo& info : metrics_table()) {
    if (info.kind != kind) continue;
    page += str_cat("| `", kMetricPrefix, info.name, "` | ", info.help, " | ",
                    buckets ? bucket_cell(info) : label_cell(info), " |\n");
  }
  return page;
}

}  // namespace

std::string metrics_document() {
  return str_cat(
      "# Metrics\n\n"
      "Made by `refrain config docs metrics` from the table of metrics; a test fails when this "
      "page differs\nfrom it.\n\n"
      "`GET /metrics` shows all of them in the Prometheus text format, each from the start with "
      "0. Times are in\nseconds, sizes in bytes, lengths in tokens.\n",
      section(MetricKind::kCounter, "Counters", "They only grow, from 0 at the start."),
      section(MetricKind::kGauge, "Gauges", "The state of this moment."),
      section(MetricKind::kHistogram, "Histograms",
              "Each has the series `_bucket{le=...}`, `_sum` and `_count`; a last bucket has no "
              "upper bound."));
}

}  // namespace refrain::metrics
