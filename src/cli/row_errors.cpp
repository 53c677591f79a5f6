// Divergences in double precision. Any thread.
#include "cli/row_errors.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace refrain::cli {
namespace {

// log of the sum of e^logit.
double log_sum(std::span<const float> logits) {
  const double highest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - highest);
  return std::log(sum) + highest;
}

double divergence(std::span<const float> expected, std::span<const float> actual) {
  const double expected_sum = log_sum(expected), actual_sum = log_sum(actual);
  double total = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double log_p = static_cast<double>(expected[i]) - expected_sum;
    const double log_q = static_cast<double>(actual[i]) - actual_sum;
    total += std::exp(log_p) * (log_p - log_q);
  }
  return std::max(0.0, total);  // rounding may leave a little less
}

}  // namespace

// With x and y the rows and m their largest: D = E(x - y) - m_x + m_y - log S_x + log S_y, with the
// mean E over softmax(x) and S the sums of e^(x - m).
double quick_divergence(std::span<const float> expected, std::span<const float> actual) {
  const float top_x = *std::max_element(expected.begin(), expected.end());
  const float top_y = *std::max_element(actual.begin(), actual.end());
  double sum_x = 0, sum_y = 0, difference = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const float weight = std::exp(expected[i] - top_x);
    sum_x += weight;
    sum_y += std::exp(actual[i] - top_y);
    difference += double{weight} * (double{expected[i]} - double{actual[i]});
  }
  const double divergence =
      difference / sum_x - double{top_x} + double{top_y} - std::log(sum_x) + std::log(sum_y);
  return divergence < 0.0 ? 0.0 : divergence;  // rounding may leave a little less; NaN stays NaN
}

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
    errors.kl.push_back(same ? 0.0 : divergence(wanted, got));
    if (likeliest(wanted) != likeliest(got)) continue;
    ++errors.agreeing;
    if (errors.agreeing == errors.kl.size()) errors.common_prefix = errors.agreeing;
  }
  return errors;
}

}  // namespace refrain::cli
