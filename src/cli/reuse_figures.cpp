// Means, medians, percentiles. Any thread.
#include "cli/reuse_figures.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <string>
#include <utility>

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

bool counts(const ReuseResult& one) {
  return one.kind == ReuseKind::kChanged && one.cold_answer != one.answer_before;
}

bool cold_has_new_value(const ReuseResult& one) {
  return has_value(one.cold_answer, one.new_value) && !has_value(one.cold_answer, one.old_value);
}

// `chosen` gives the rung of a case that is looked at.
template <typename Chosen>
std::optional<ChangedFigures> changed_figures(const std::vector<const ReuseResult*>& cases,
                                              const Chosen& chosen) {
  if (cases.front()->kind != ReuseKind::kChanged) return std::nullopt;
  ChangedFigures figures;
  double counting = 0;
  for (const ReuseResult* one : cases) {
    if (!counts(*one)) continue;
    const std::string& answer = chosen(*one).answer;
    counting += 1;
    figures.same += answer == one->cold_answer ? 1.0 : 0.0;
    if (cold_has_new_value(*one) && has_stale_word(answer, *one)) ++figures.old_values;
  }
  figures.same /= std::max(counting, 1.0);
  return figures;
}

template <typename Chosen>
std::optional<double> mean_copied(const std::vector<const ReuseResult*>& cases,
                                  const Chosen& answer) {
  if (cases.front()->kind != ReuseKind::kCopied) return std::nullopt;
  std::vector<double> shares;
  shares.reserve(cases.size());
  for (const ReuseResult* one : cases) shares.push_back(copied_share(one->span, answer(*one)));
  return mean(shares);
}

RungFigures rung_figures(const std::vector<const ReuseResult*>& cases, std::size_t index) {
  RungFigures figures{
      .rung = cases.front()->rungs[index].rung, .errors = {}, .changed = {}, .copied = {}};
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
  const auto chosen = [&](const ReuseResult& one) -> const RungResult& { return one.rungs[index]; };
  figures.changed = changed_figures(cases, chosen);
  figures.copied = mean_copied(
      cases, [&](const ReuseResult& one) -> const std::string& { return chosen(one).answer; });
  return figures;
}

// All cases have a gate, or none has.
std::optional<GateFigures> gate_figures(const std::vector<const ReuseResult*>& cases) {
  if (!cases.front()->gate) return std::nullopt;
  GateFigures figures{.errors = {}, .refusal_ratio = {}, .changed = {}, .copied = {}};
  std::vector<const RowErrors*> errors;
  std::vector<double> ratio, refusal, kl, estimate;
  for (const ReuseResult* one : cases) {
    const RungResult& chosen = one->gate->chosen;
    const double share = 1.0 / static_cast<double>(cases.size());
    if (one->gate->left_alone) {
      figures.left_alone += share;
    } else {
      figures.shares[static_cast<std::size_t>(chosen.rung)] += share;
    }
    if (!one->gate->refused && one->gate->tie) figures.later += share;
    errors.push_back(&chosen.errors);
    ratio.push_back(static_cast<double>(chosen.ttft) / static_cast<double>(one->cold_ttft));
    if (one->gate->refused) {
      refusal.push_back(ratio.back());
    } else if (!one->gate->left_alone) {
      kl.push_back(mean(chosen.errors.kl));
      estimate.push_back(one->gate->estimate.value_or(0.0));
    }
  }
  const auto chosen_of = [](const ReuseResult& one) -> const RungResult& {
    return one.gate->chosen;
  };
  figures.changed = changed_figures(cases, chosen_of);
  figures.copied = mean_copied(
      cases, [&](const ReuseResult& one) -> const std::string& { return chosen_of(one).answer; });
  figures.errors = error_figures(errors);
  figures.kl_reused = mean(kl);
  figures.estimate_reused = mean(estimate);
  figures.ratio = median(std::move(ratio));
  if (!refusal.empty()) figures.refusal_ratio = median(std::move(refusal));
  return figures;
}

KindFigures kind_figures(ReuseKind kind, const std::vector<const ReuseResult*>& cases) {
  KindFigures figures{.kind = kind,
                      .cases = cases.size(),
                      .dropped = {},
                      .cold_copied = {},
                      .rungs = {},
                      .gate = {}};
  const auto count = static_cast<double>(cases.size());
  std::vector<const RowErrors*> dropped;
  std::vector<double> cold;
  for (const ReuseResult* one : cases) {
    figures.rows +=
        (one->rungs.empty() ? one->gate->chosen : one->rungs.front()).errors.kl.size();
    figures.prompt_tokens += one->prompt_tokens / count;
    figures.exact_tokens += one->exact_tokens / count;
    figures.moved_tokens += one->moved_tokens / count;
    figures.runs += one->run_count / count;
    if (!one->dropped.kl.empty()) dropped.push_back(&one->dropped);
    if (counts(*one)) {
      ++figures.counting;
      if (cold_has_new_value(*one)) ++figures.cold_new_values;
    }
    cold.push_back(to_milliseconds(one->cold_ttft));
  }
  if (!dropped.empty()) figures.dropped = error_figures(dropped);
  figures.cold_copied = mean_copied(
      cases, [](const ReuseResult& one) -> const std::string& { return one.cold_answer; });
  figures.cold_ms = median(std::move(cold));
  for (std::size_t i = 0; i < cases.front()->rungs.size(); ++i)
    figures.rungs.push_back(rung_figures(cases, i));
  figures.gate = gate_figures(cases);
  return figures;
}

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0;
}

std::string lower(std::string_view text) {
  std::string low(text);
  for (char& c : low) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return low;
}

}  // namespace

bool has_value(std::string_view text, std::string_view value) {
  const std::string in = lower(text), wanted = lower(value);
  if (wanted.empty()) return false;
  for (std::size_t at = 0; (at = in.find(wanted, at)) != std::string::npos; ++at) {
    const std::size_t end = at + wanted.size();
    if ((at == 0 || !is_word(in[at - 1])) && (end == in.size() || !is_word(in[end]))) return true;
  }
  return false;
}

bool has_stale_word(std::string_view answer, const ReuseResult& one) {
  return std::ranges::any_of(split(one.old_value, ' '), [&](std::string_view word) {
    return has_value(answer, word) && !has_value(one.new_value, word) &&
           !has_value(one.cold_answer, word);
  });
}

// The longest common substring, row by row of the table that compares all pairs of bytes.
double copied_share(std::string_view span, std::string_view answer) {
  if (span.empty()) return 0.0;
  std::size_t longest = 0;
  std::vector<std::size_t> row(answer.size() + 1), next(answer.size() + 1);
  for (const char c : span) {
    for (std::size_t i = 0; i < answer.size(); ++i) {
      next[i + 1] = answer[i] == c ? row[i] + 1 : 0;
      longest = std::max(longest, next[i + 1]);
    }
    std::swap(row, next);
  }
  return static_cast<double>(longest) / static_cast<double>(span.size());
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) /
         static_cast<double>(std::max<std::size_t>(values.size(), 1));
}

std::vector<KindFigures> reuse_figures(std::span<const ReuseResult> results) {
  std::vector<KindFigures> all;
  for (const ReuseKind kind : kReuseKinds) {
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

}  // namespace refrain::cli
