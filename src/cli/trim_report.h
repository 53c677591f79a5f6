// What `refrain eval trim` says, as text and as JSON. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cli/trim_bench.h"

namespace refrain::cli {

// All answers over one policy and ratio, the full context first.
struct TrimFigures {
  static constexpr std::size_t kParts = 4;  // of a context, for where things stand

  const model::TrimPolicy* policy = nullptr;  // null: nothing cut
  std::uint32_t ratio = 1;
  double kept_share = 1;  // of the context
  double kl = 0, same_top = 1;
  double right = 0;        // share of first questions
  double right_later = 0;  // of second questions
  double right_by_part[kParts] = {};
  double look_ms = 0;  // per case
  std::size_t questions = 0;
};
std::vector<TrimFigures> trim_figures(std::span<const std::vector<TrimResult>> cases);

std::string trim_text(std::span<const TrimFigures> figures);

// What was measured with.
struct TrimSubject {
  std::string model;
  std::string numerics;
  std::size_t cases = 0, pairs = 0, filler = 0;
  double context_tokens = 0;  // mean
};
// With a line break at its end.
std::string trim_json(const TrimSubject& subject, std::span<const TrimFigures> figures);

}  // namespace refrain::cli
