// Comparison of rows. One thread at a time.
#include "cli/exact_findings.h"

#include <array>
#include <bit>
#include <cstdio>
#include <cstring>

#include "base/check.h"
#include "base/str.h"

namespace refrain::cli {
namespace {

bool same_bits(float left, float right) {
  return std::bit_cast<std::uint32_t>(left) == std::bit_cast<std::uint32_t>(right);
}

std::string value_text(float value) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%.9g", static_cast<double>(value));
  return str_cat(text.data(), " (", float_bits(value), ")");
}

}  // namespace

void Coverage::add(const kv::LedgerTotals& totals) {
  prompt_tokens += totals.queried_tokens;
  cached_tokens += totals.hit_tokens;
  copied_blocks += totals.copied_blocks;
  evicted_blocks += totals.evicted_blocks;
}

void Coverage::add(const Coverage& other) {
  rows_compared += other.rows_compared;
  prompt_tokens += other.prompt_tokens;
  cached_tokens += other.cached_tokens;
  reply_rows += other.reply_rows;
  copied_blocks += other.copied_blocks;
  evicted_blocks += other.evicted_blocks;
  rejected_rows += other.rejected_rows;
  restarts += other.restarts;
  engine_trials += other.engine_trials;
}

void Findings::compare(std::span<const float> expected, std::span<const float> actual,
                       const RowPlace& place) {
  CHECK(expected.size() == actual.size(), "rows of different models");
  ++coverage.rows_compared;
  if (std::memcmp(expected.data(), actual.data(), expected.size_bytes()) == 0) return;
  ++rows_different_;
  if (first_) return;
  Mismatch found{.place = place, .setting = setting};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (same_bits(expected[i], actual[i])) continue;
    if (found.differing_values++ > 0) continue;
    found.token = i;
    found.expected = expected[i];
    found.actual = actual[i];
  }
  first_ = std::move(found);
}

void Findings::fault(std::string what) {
  if (fault_.empty()) fault_ = str_cat(what, setting.empty() ? "" : "; ", setting);
}

std::string describe(const Mismatch& mismatch) {
  const RowPlace& place = mismatch.place;
  return str_cat("turn ", place.turn, ", position ", place.position, " (row ", place.row, " of ",
                 place.row_count, " in step ", place.step, "; ", mismatch.setting, "): token ",
                 mismatch.token, " is ", value_text(mismatch.actual), " instead of ",
                 value_text(mismatch.expected), "; ", mismatch.differing_values,
                 " values of the row differ");
}

std::string float_bits(float value) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%08x", std::bit_cast<std::uint32_t>(value));
  return text.data();
}

}  // namespace refrain::cli
