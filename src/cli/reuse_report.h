// What `refrain eval reuse` says, as text and as JSON. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "cli/reuse_figures.h"

namespace refrain::cli {

std::string reuse_text(std::span<const KindFigures> figures);

// What was measured with.
struct ReuseSubject {
  std::string model;
  std::string numerics;
  std::string data;  // file, or "generated"
  std::uint32_t answer_rows = 0;
  std::uint32_t step_tokens = 0;
  std::optional<double> max_divergence = {};  // of the gate; none: it was not measured
};
// With a line break at its end.
std::string reuse_json(const ReuseSubject& subject, std::span<const ReuseResult> results);

}  // namespace refrain::cli
