// The figures of `refrain eval reuse` over all cases of a kind. Pure functions; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "cli/reuse_bench.h"

namespace refrain::cli {

// Errors over all rows of all cases.
struct ErrorFigures {
  double kl_mean = 0;        // nats
  double kl_p95 = 0;         // nats, nearest rank
  double top1 = 0;           // share of rows with the same likeliest token
  double common_prefix = 0;  // mean tokens of the greedy answer before the first that differs
};

// Of changed cases that count: those whose cold answer is another one since the change.
struct ChangedFigures {
  double same = 0;  // share with the cold answer
  // Answers with the old value or a part of it, where the cold one has the new one.
  std::size_t old_values = 0;
};

struct RungFigures {
  model::RepairRung rung{};
  ErrorFigures errors;
  double repaired_share = 0;  // of the moved tokens
  double ttft_ms = 0;         // median
  double ratio = 0;           // median over the cases of warm / cold
  double move_ms = 0;         // median
  std::optional<ChangedFigures> changed;
  std::optional<double> copied;  // of copied cases: mean of copied_share
};

// What the gate made of the cases; what was refused or left alone was computed, and counts with
// that.
struct GateFigures {
  // Of the cases; kAll: refused. With `left_alone` they add up to 1.
  std::array<double, std::size(model::kRepairRungs)> shares{};
  double left_alone = 0;       // share of the cases with too little to spare
  double later = 0;            // share of the cases that were computed after their first token
  ErrorFigures errors;         // of all cases
  double kl_reused = 0;        // nats, mean over the cases that were not computed
  double estimate_reused = 0;  // nats, what was expected of them
  double ratio = 0;            // median of TTFT / cold
  std::optional<double> refusal_ratio;  // the same of the refused cases alone, if any
  std::optional<ChangedFigures> changed;
  std::optional<double> copied;
};

struct KindFigures {
  ReuseKind kind{};
  std::size_t cases = 0;
  std::size_t rows = 0;
  double prompt_tokens = 0, exact_tokens = 0, moved_tokens = 0, runs = 0;  // means
  double cold_ms = 0;                                                      // median
  std::optional<ErrorFigures> dropped;                                     // if checked
  std::size_t counting = 0;                                                // changed cases that do
  std::size_t cold_new_values = 0;  // of those, cold answers that have the new value
  std::optional<double> cold_copied;
  std::vector<RungFigures> rungs;
  std::optional<GateFigures> gate;
};

// Whether `value` stands in `text`, as whole words; letters in any case.
bool has_value(std::string_view text, std::string_view value);
// Whether a word of the old value stands in `answer` that neither the new value nor the cold answer
// has: "20 December" is stale where 25 December has become 5 June.
bool has_stale_word(std::string_view answer, const ReuseResult& one);
// Bytes of the longest piece of `span` that stands in `answer`, as a share of the span.
double copied_share(std::string_view span, std::string_view answer);

// 0 of none.
double mean(const std::vector<double>& values);

// For each kind that has cases.
std::vector<KindFigures> reuse_figures(std::span<const ReuseResult> results);

// Cases whose cold runs differ among themselves, or whose full repair differs from the cold run.
// Both must be bit for bit the same: anything else is a fault.
std::size_t inexact_cases(std::span<const ReuseResult> results);

}  // namespace refrain::cli
