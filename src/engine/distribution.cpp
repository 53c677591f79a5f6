#include "engine/distribution.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"

namespace refrain::engine {

LogitScan scan_logits(std::span<const float> logits) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  constexpr std::size_t kLanes = 16;  // independent maxima, so that the loop is not one long chain
  float best[kLanes];
  std::fill(best, best + kLanes, -kLargest);
  bool bad = logits.empty();
  std::size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    bool bad_lane = false;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const float value = logits[i + lane];
      bad_lane |= !(std::fabs(value) <= kLargest);
      best[lane] = value > best[lane] ? value : best[lane];
    }
    bad |= bad_lane;
  }
  for (; i < logits.size(); ++i) {
    bad |= !(std::fabs(logits[i]) <= kLargest);
    best[0] = logits[i] > best[0] ? logits[i] : best[0];
  }
  return LogitScan{!bad, *std::max_element(best, best + kLanes)};
}

double log_sum_exp(std::span<const float> logits, float max) {
  double sum = 0.0;
  for (const float logit : logits) sum += static_cast<double>(std::exp(logit - max));
  return static_cast<double>(max) + std::log(sum);
}

// With x and y the rows and m their largest: D = E(x - y) - m_x + m_y - log S_x + log S_y, with the
// mean E over softmax(x) and S the sums of e^(x - m).
double divergence(std::span<const float> expected, std::span<const float> actual) {
  const double top_x = *std::max_element(expected.begin(), expected.end());
  const double top_y = *std::max_element(actual.begin(), actual.end());
  double sum_x = 0, sum_y = 0, difference = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double x = expected[i], y = actual[i];
    const double weight = std::exp(x - top_x);
    sum_x += weight;
    sum_y += std::exp(y - top_y);
    difference += weight * (x - y);
  }
  const double nats = difference / sum_x - top_x + top_y - std::log(sum_x) + std::log(sum_y);
  return nats < 0.0 ? 0.0 : nats;  // rounding may leave a little less; NaN stays NaN
}

std::vector<TokenLogit> best_tokens(std::span<const float> logits, std::size_t count) {
  count = std::min(count, logits.size());
  std::vector<TokenLogit> kept;
  if (count == 0) return kept;
  const std::size_t limit = std::max<std::size_t>(2 * count, 256);
  kept.reserve(std::min(limit, logits.size()));
  float threshold = -std::numeric_limits<float>::infinity();
  const auto cut = [&] {
    std::nth_element(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(count - 1),
                     kept.end(), ranks_before);
    kept.resize(count);
    threshold = kept[count - 1].logit;
  };
  for (std::size_t i = 0; i < logits.size(); ++i) {
    // Ids ascend, so a later token that equals the threshold ranks behind all that are kept.
    if (!(logits[i] > threshold) && kept.size() >= count) continue;
    if (kept.size() == limit) {
      cut();
      if (!(logits[i] > threshold)) continue;
    }
    kept.push_back(TokenLogit{static_cast<TokenId>(i), logits[i]});
  }
  if (kept.size() > count) cut();
  return kept;
}

TokenLogit best_token(std::span<const float> logits) {
  TokenLogit best{static_cast<TokenId>(-1), -std::numeric_limits<float>::infinity()};
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (logits[i] > best.logit) best = TokenLogit{static_cast<TokenId>(i), logits[i]};
  return best;
}

Lead lead_of(std::span<const float> logits) {
  CHECK(logits.size() >= 2, "one token is ahead of nothing");
  std::vector<TokenLogit> two = best_tokens(logits, 2);
  if (ranks_before(two[1], two[0])) std::swap(two[0], two[1]);
  return {two[0], two[1]};
}

}  // namespace refrain::engine
