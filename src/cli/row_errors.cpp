// Comparing rows. Any thread.
#include "cli/row_errors.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "engine/distribution.h"

namespace refrain::cli {
namespace {

std::size_t index_of(const engine::TokenLogit& token) {
  return static_cast<std::size_t>(to_int(token.token));
}

}  // namespace

std::size_t likeliest(std::span<const float> logits) {
  return static_cast<std::size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

RowErrors compare_rows(std::span<const float> expected, std::span<const float> actual,
                       std::size_t width) {
  CHECK(expected.size() == actual.size() && expected.size() % width == 0, "rows of other sizes");
  RowErrors errors;
  for (std::size_t at = 0; at < expected.size(); at += width) {
    const auto wanted = expected.subspan(at, width), got = actual.subspan(at, width);
    const bool same = std::equal(wanted.begin(), wanted.end(), got.begin());
    errors.same_bits = errors.same_bits && same;
    errors.kl.push_back(same ? 0.0 : engine::divergence(wanted, got));
    const engine::Lead lead = engine::lead_of(got);
    const double expected_margin =
        double{wanted[index_of(lead.first)]} - wanted[index_of(lead.second)];
    errors.margin.push_back(lead.margin());
    errors.margin_shift.push_back(lead.margin() - expected_margin);
    if (likeliest(wanted) != likeliest(got) || !std::isfinite(errors.kl.back())) continue;
    ++errors.agreeing;
    if (errors.agreeing == errors.kl.size()) errors.common_prefix = errors.agreeing;
  }
  return errors;
}

}  // namespace refrain::cli
