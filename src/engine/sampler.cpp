#include "engine/sampler.h"

#include <algorithm>

#include "engine/distribution.h"
#include "engine/truncation.h"

namespace refrain::engine {
namespace {

Error not_finite() {
  return Error{Code::kInternal, "the model produced a logit that is not a finite number",
               "the request was ended; check the model file if this happens again"};
}

// Best first; `count` is at most 20, so that sorting them is cheap.
std::vector<TokenProbability> top_probabilities(std::span<const float> logits, double normaliser,
                                                std::int32_t count) {
  std::vector<TokenLogit> best = best_tokens(logits, static_cast<std::size_t>(count));
  std::sort(best.begin(), best.end(), ranks_before);
  std::vector<TokenProbability> top;
  top.reserve(best.size());
  for (const TokenLogit& entry : best)
    top.push_back(TokenProbability{
        entry.token, static_cast<float>(static_cast<double>(entry.logit) - normaliser)});
  return top;
}

}  // namespace

Result<Sample> read_logprobs(std::span<const float> logits, TokenId token, std::int32_t top_count) {
  const LogitScan scan = scan_logits(logits);
  if (!scan.finite) return not_finite();
  const double normaliser = log_sum_exp(logits, scan.max);
  Sample sample{.token = token};
  const float logit = logits[static_cast<std::size_t>(to_int(token))];
  sample.logprob = static_cast<float>(static_cast<double>(logit) - normaliser);
  sample.top = top_probabilities(logits, normaliser, std::max(top_count, 0));
  return sample;
}

Sampler::Sampler(const SamplingParams& params, std::uint64_t seed, std::span<const TokenId> prompt)
    : params_(params), penalties_(params, prompt), rng_(seed) {}

Result<Sample> Sampler::sample(std::span<float> logits, GrammarState* grammar) {
  const LogitScan scan = scan_logits(logits);
  if (!scan.finite) return not_finite();
  const bool wants_logprobs = params_.top_logprobs >= 0;
  Sample sample;
  double normaliser = 0.0;
  if (wants_logprobs) {
    normaliser = log_sum_exp(logits, scan.max);
    sample.top = top_probabilities(logits, normaliser, params_.top_logprobs);
  }
  shape(logits, grammar);
  const TokenLogit best = best_token(logits);
  if (to_int(best.token) < 0)
    return Error{Code::kInvalidArgument, "no token is left to choose from",
                 "`logit_bias` and `response_format` together forbid every token", "logit_bias"};
  sample.token = choose(logits, best);
  if (wants_logprobs) {
    const float now = logits[static_cast<std::size_t>(to_int(sample.token))];
    const float logit = penalties_.original(sample.token, now);
    sample.logprob = static_cast<float>(static_cast<double>(logit) - normaliser);
  }
  penalties_.count(sample.token);
  return sample;
}

void Sampler::shape(std::span<float> logits, GrammarState* grammar) {
  penalties_.apply(logits);
  if (grammar != nullptr) grammar->mask(logits);
}

double Sampler::margin(std::span<float> logits, GrammarState* grammar) {
  shape(logits, grammar);
  return lead_of(logits).margin();
}

TokenId Sampler::choose(std::span<const float> logits, const TokenLogit& best) {
  if (greedy()) return best.token;
  const TokenLogit cut = find_cut(logits, best.logit, params_);
  return draw(logits, best.logit, cut, params_.temperature, rng_);
}

}  // namespace refrain::engine
