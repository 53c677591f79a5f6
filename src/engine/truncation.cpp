#include "engine/truncation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace refrain::engine {
namespace {

constexpr float kNegativeInfinity = -std::numeric_limits<float>::infinity();
constexpr TokenId kLastToken = static_cast<TokenId>(std::numeric_limits<std::int32_t>::max());
constexpr double kFloorSlack = 0.01;
constexpr std::size_t kDrawBlock = 512;

double weight(float logit, float max, float temperature) {
  return static_cast<double>(std::exp((logit - max) / temperature));
}

double mass_of(std::span<const TokenLogit> tokens, float max, float temperature) {
  double mass = 0.0;
  for (const TokenLogit& token : tokens) mass += weight(token.logit, max, temperature);
  return mass;
}

// The last token of the smallest set of best ranked `tokens` that holds `target` mass. Quickselect
// by mass: each round halves the range [low, high) that holds the border.
//
//   [ 0 .. low )  in, mass summed     [ low .. high )  undecided     [ high .. )  out
TokenLogit cut_at_mass(std::vector<TokenLogit>& tokens, double target, float max,
                       float temperature) {
  std::size_t low = 0;
  std::size_t high = tokens.size();
  double mass_below_low = 0.0;
  while (high - low > 1) {
    const std::size_t middle = low + (high - low) / 2;
    const auto at = [&](std::size_t i) { return tokens.begin() + static_cast<std::ptrdiff_t>(i); };
    std::nth_element(at(low), at(middle), at(high), ranks_before);
    const double upper = mass_of(std::span(tokens).subspan(low, middle - low), max, temperature);
    if (mass_below_low + upper >= target) {
      high = middle;
    } else {
      mass_below_low += upper;
      low = middle;
    }
  }
  return tokens[low];
}

TokenLogit worst_of(const std::vector<TokenLogit>& tokens) {
  return *std::max_element(tokens.begin(), tokens.end(), ranks_before);
}

TokenLogit top_p_cut_over_all(std::span<const float> logits, float max,
                              const SamplingParams& params) {
  double total = 0.0;
  for (const float logit : logits) total += weight(logit, max, params.temperature);
  const double target = total * static_cast<double>(params.top_p);
  // Tokens lighter than (total - target) / n weigh less than total - target all together, so all
  // of them lie behind the cut. What is left is short; a little slack covers rounding.
  const double share =
      (1.0 - static_cast<double>(params.top_p)) / static_cast<double>(logits.size());
  const double least = static_cast<double>(max) + static_cast<double>(params.temperature) *
                                                      (std::log(total * share) - kFloorSlack);
  std::vector<TokenLogit> tokens;
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (static_cast<double>(logits[i]) >= least || logits[i] == max)
      tokens.push_back(TokenLogit{static_cast<TokenId>(i), logits[i]});
  return cut_at_mass(tokens, target, max, params.temperature);
}

}  // namespace

TokenLogit find_cut(std::span<const float> logits, float max, const SamplingParams& params) {
  TokenLogit cut{kLastToken, kNegativeInfinity};
  const bool use_top_p = params.top_p < 1.0F;
  if (params.top_k > 0 && static_cast<std::size_t>(params.top_k) < logits.size()) {
    std::vector<TokenLogit> tokens = best_tokens(logits, static_cast<std::size_t>(params.top_k));
    if (use_top_p) {
      const double target =
          mass_of(tokens, max, params.temperature) * static_cast<double>(params.top_p);
      cut = cut_at_mass(tokens, target, max, params.temperature);
    } else {
      cut = worst_of(tokens);
    }
  } else if (use_top_p) {
    cut = top_p_cut_over_all(logits, max, params);
  }
  if (params.min_p > 0.0F) {
    // p >= min_p * p_max  <=>  logit >= max + temperature * ln(min_p)
    const float least = max + params.temperature * std::log(params.min_p);
    if (least > cut.logit) cut = TokenLogit{kLastToken, least};
  }
  return cut;
}

TokenId draw(std::span<const float> logits, float max, const TokenLogit& cut, float temperature,
             Rng& rng) {
  const auto weight_of = [&](std::size_t i) {
    const bool out = logits[i] < cut.logit ||
                     (logits[i] == cut.logit && static_cast<std::int32_t>(i) > to_int(cut.token));
    return out ? 0.0 : weight(logits[i], max, temperature);
  };
  std::vector<double> block_mass;
  double total = 0.0;
  for (std::size_t begin = 0; begin < logits.size(); begin += kDrawBlock) {
    double mass = 0.0;
    const std::size_t end = std::min(begin + kDrawBlock, logits.size());
    for (std::size_t i = begin; i < end; ++i) mass += weight_of(i);
    block_mass.push_back(mass);
    total += mass;
  }
  // `left` is how much mass lies before the drawn token; rounding may leave a little at the end,
  // which then goes to the last token with any weight.
  double left = rng.uniform() * total;
  std::size_t block = 0;
  while (block + 1 < block_mass.size() && left >= block_mass[block]) left -= block_mass[block++];
  std::size_t chosen = logits.size();
  for (std::size_t i = block * kDrawBlock; i < logits.size(); ++i) {
    const double mass = weight_of(i);
    if (mass <= 0.0) continue;
    chosen = i;
    if (left < mass) break;
    left -= mass;
  }
  if (chosen == logits.size()) return best_token(logits).token;  // all the rest has no weight
  return static_cast<TokenId>(chosen);
}

}  // namespace refrain::engine
