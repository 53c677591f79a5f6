// Means, percentiles, tables. Any thread.
#include "cli/reuse_report.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/statistics.h"
#include "base/str.h"
#include "cli/serve_bench.h"

namespace refrain::cli {
namespace {

ErrorFigures error_figures(const std::vector<const RowErrors*>& all) {
  ErrorFigures figures;
  std::vector<double> kl;
  for (const RowErrors* errors : all) {
    kl.insert(kl.end(), errors->kl.begin(), errors->kl.end());
    figures.top1 += static_cast<double>(errors->agreeing);
    figures.common_prefix += static_cast<double>(errors->common_prefix);
  }
  for (const double each : kl) figures.kl_mean += each;
  const auto rows = static_cast<double>(kl.size());
  figures.kl_mean /= rows;
  figures.top1 /= rows;
  figures.common_prefix /= static_cast<double>(all.size());
  figures.kl_p95 = percentile(std::move(kl), 0.95);
  return figures;
}

RungFigures rung_figures(const std::vector<const ReuseResult*>& cases, std::size_t index) {
  RungFigures figures{.rung = cases.front()->rungs[index].rung, .errors = {}};
  std::vector<const RowErrors*> errors;
  std::vector<double> ttft, ratio, move;
  double repaired = 0, moved = 0;
  for (const ReuseResult* one : cases) {
    const RungResult& rung = one->rungs[index];
    errors.push_back(&rung.errors);
    ttft.push_back(to_milliseconds(rung.ttft));
    move.push_back(to_milliseconds(rung.move));
    ratio.push_back(static_cast<double>(rung.ttft) / static_cast<double>(one->cold_ttft));
    repaired += rung.repaired_rows;
    moved += one->moved_tokens;
  }
  figures.errors = error_figures(errors);
  figures.repaired_share = moved > 0 ? repaired / moved : 0.0;
  figures.ttft_ms = median(std::move(ttft));
  figures.ratio = median(std::move(ratio));
  figures.move_ms = median(std::move(move));
  return figures;
}

KindFigures kind_figures(ReuseKind kind, const std::vector<const ReuseResult*>& cases) {
  KindFigures figures{.kind = kind, .cases = cases.size(), .dropped = {}, .rungs = {}};
  const auto count = static_cast<double>(cases.size());
  std::vector<const RowErrors*> dropped;
  std::vector<double> cold;
  for (const ReuseResult* one : cases) {
    figures.rows += one->dropped.kl.size();
    figures.prompt_tokens += one->prompt_tokens / count;
    figures.exact_tokens += one->exact_tokens / count;
    figures.moved_tokens += one->moved_tokens / count;
    figures.runs += one->run_count / count;
    dropped.push_back(&one->dropped);
    cold.push_back(to_milliseconds(one->cold_ttft));
  }
  figures.dropped = error_figures(dropped);
  figures.cold_ms = median(std::move(cold));
  for (std::size_t i = 0; i < cases.front()->rungs.size(); ++i)
    figures.rungs.push_back(rung_figures(cases, i));
  return figures;
}

template <typename... Values>
std::string line(const char* format, Values... values) {
  std::array<char, 200> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

std::string error_columns(const ErrorFigures& errors) {
  return line("%9.5f %9.5f %6.3f %7.1f", errors.kl_mean, errors.kl_p95, errors.top1,
              errors.common_prefix);
}

nlohmann::ordered_json error_json(const ErrorFigures& errors) {
  return {{"kl_mean", errors.kl_mean},
          {"kl_p95", errors.kl_p95},
          {"top1_agreement", errors.top1},
          {"greedy_common_prefix", errors.common_prefix}};
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) /
         static_cast<double>(std::max<std::size_t>(values.size(), 1));
}

// What a calibration is made from: exposure and error of each rung, case by case.
nlohmann::ordered_json case_json(const ReuseResult& one) {
  nlohmann::ordered_json rungs = nlohmann::ordered_json::array();
  for (const RungResult& rung : one.rungs) {
    nlohmann::ordered_json entry = {{"rung", static_cast<int>(rung.rung)},
                                    {"kl_mean", mean(rung.errors.kl)}};
    if (rung.exposure) entry["exposure"] = *rung.exposure;
    rungs.push_back(std::move(entry));
  }
  return {{"kind", name_of(one.kind)}, {"rungs", std::move(rungs)}};
}

nlohmann::ordered_json kind_json(const KindFigures& kind) {
  nlohmann::ordered_json rungs = nlohmann::ordered_json::array();
  for (const RungFigures& rung : kind.rungs) {
    nlohmann::ordered_json one = {{"rung", static_cast<int>(rung.rung)},
                                  {"name", model::name_of(rung.rung)},
                                  {"repaired_share", rung.repaired_share}};
    one.update(error_json(rung.errors));
    one.update(
        {{"ttft_ms", rung.ttft_ms}, {"ttft_of_cold", rung.ratio}, {"move_ms", rung.move_ms}});
    rungs.push_back(std::move(one));
  }
  return {{"kind", name_of(kind.kind)},
          {"cases", kind.cases},
          {"rows", kind.rows},
          {"prompt_tokens", kind.prompt_tokens},
          {"exact_tokens", kind.exact_tokens},
          {"moved_tokens", kind.moved_tokens},
          {"runs", kind.runs},
          {"cold_ttft_ms", kind.cold_ms},
          {"rungs", std::move(rungs)},
          {"dropped", error_json(kind.dropped)}};
}

}  // namespace

std::vector<KindFigures> reuse_figures(std::span<const ReuseResult> results) {
  std::vector<KindFigures> all;
  for (const ReuseKind kind : {ReuseKind::kRecombined, ReuseKind::kEdited}) {
    std::vector<const ReuseResult*> cases;
    for (const ReuseResult& result : results) {
      if (result.kind == kind) cases.push_back(&result);
    }
    if (!cases.empty()) all.push_back(kind_figures(kind, cases));
  }
  return all;
}

std::size_t inexact_cases(std::span<const ReuseResult> results) {
  return static_cast<std::size_t>(
      std::count_if(results.begin(), results.end(), [](const ReuseResult& result) {
        return !result.cold_again.same_bits ||
               std::any_of(result.rungs.begin(), result.rungs.end(), [](const RungResult& rung) {
                 return rung.rung == model::RepairRung::kAll && !rung.errors.same_bits;
               });
      }));
}

std::string reuse_text(std::span<const KindFigures> figures) {
  std::string text;
  for (const KindFigures& kind : figures) {
    text += line(
        "%s: %zu cases, %zu rows of answers; prompts of %.0f tokens, %.0f exact, %.0f "
        "moved in %.1f runs; cold TTFT %.0f ms\n",
        std::string(name_of(kind.kind)).c_str(), kind.cases, kind.rows, kind.prompt_tokens,
        kind.exact_tokens, kind.moved_tokens, kind.runs, kind.cold_ms);
    text += "  rung         repaired   KL mean    KL p95  top-1  common  TTFT ms  of cold\n";
    for (const RungFigures& rung : kind.rungs) {
      text += line("  %zu %-10s %6.1f %% %s %8.0f %8.3f\n", static_cast<std::size_t>(rung.rung),
                   std::string(model::name_of(rung.rung)).c_str(), 100.0 * rung.repaired_share,
                   error_columns(rung.errors).c_str(), rung.ttft_ms, rung.ratio);
    }
    text += line("    dropped             %s\n", error_columns(kind.dropped).c_str());
    if (!kind.rungs.empty())
      text += line("  moving rows takes %.1f ms of TTFT\n", kind.rungs.front().move_ms);
  }
  return text;
}

std::string reuse_json(const ReuseSubject& subject, std::span<const ReuseResult> results) {
  const std::vector<KindFigures> figures = reuse_figures(results);
  nlohmann::ordered_json kinds = nlohmann::ordered_json::array();
  for (const KindFigures& kind : figures) kinds.push_back(kind_json(kind));
  nlohmann::ordered_json cases = nlohmann::ordered_json::array();
  for (const ReuseResult& one : results) cases.push_back(case_json(one));
  const nlohmann::ordered_json json = {{"model", subject.model},
                                       {"numerics", subject.numerics},
                                       {"data", subject.data},
                                       {"answer_rows", subject.answer_rows},
                                       {"step_tokens", subject.step_tokens},
                                       {"kinds", std::move(kinds)},
                                       {"cases", std::move(cases)},
                                       {"inexact_cases", inexact_cases(results)}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace refrain::cli
