// The figures of `refrain eval reuse` over all cases of a kind, as text and as JSON. Pure
// functions; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
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

struct RungFigures {
  model::RepairRung rung{};
  ErrorFigures errors;
  double repaired_share = 0;  // of the moved tokens
  double ttft_ms = 0;         // median
  double ratio = 0;           // median over the cases of warm / cold
  double move_ms = 0;         // median
};

struct KindFigures {
  ReuseKind kind{};
  std::size_t cases = 0;
  std::size_t rows = 0;
  double prompt_tokens = 0, exact_tokens = 0, moved_tokens = 0, runs = 0;  // means
  double cold_ms = 0;                                                      // median
  ErrorFigures dropped;
  std::vector<RungFigures> rungs;
};

// For each kind that has cases.
std::vector<KindFigures> reuse_figures(std::span<const ReuseResult> results);

// Cases whose cold runs differ among themselves, or whose full repair differs from the cold run.
// Both must be bit for bit the same: anything else is a fault.
std::size_t inexact_cases(std::span<const ReuseResult> results);

std::string reuse_text(std::span<const KindFigures> figures);

// What was measured with.
struct ReuseSubject {
  std::string model;
  std::string numerics;
  std::string data;  // file, or "generated"
  std::uint32_t answer_rows = 0;
  std::uint32_t step_tokens = 0;
};
// With a line break at its end.
std::string reuse_json(const ReuseSubject& subject, std::span<const ReuseResult> results);

}  // namespace refrain::cli
