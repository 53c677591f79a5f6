#include "engine/penalties.h"

#include <algorithm>
#include <limits>

namespace refrain::engine {
namespace {

constexpr float kLargest = std::numeric_limits<float>::max();

bool needs_counts(const SamplingParams& params) {
  return params.repetition_penalty != 1.0F || params.presence_penalty != 0.0F ||
         params.frequency_penalty != 0.0F;
}

}  // namespace

Penalties::Penalties(const SamplingParams& params, std::span<const TokenId> prompt)
    : params_(params), counting_(needs_counts(params)) {
  if (params.repetition_penalty == 1.0F) return;
  for (const TokenId token : prompt) output_count_.try_emplace(to_int(token), 0);
}

void Penalties::touch(std::span<float> logits, TokenId token, float changed) {
  float& logit = logits[static_cast<std::size_t>(to_int(token))];
  originals_.push_back(TokenLogit{token, logit});
  logit = changed;
}

void Penalties::apply(std::span<float> logits) {
  originals_.clear();
  for (const auto& [id, count] : output_count_) {
    const float before = logits[static_cast<std::size_t>(id)];
    float logit =
        before > 0.0F ? before / params_.repetition_penalty : before * params_.repetition_penalty;
    if (count > 0)
      logit -= params_.presence_penalty + static_cast<float>(count) * params_.frequency_penalty;
    // Absurd penalties must not make an infinity out of a finite logit.
    touch(logits, static_cast<TokenId>(id), std::clamp(logit, -kLargest, kLargest));
  }
  for (const LogitBias& entry : params_.logit_bias) {
    const float before = logits[static_cast<std::size_t>(to_int(entry.token))];
    touch(logits, entry.token,
          entry.bias <= -100.0F ? -std::numeric_limits<float>::infinity() : before + entry.bias);
  }
}

void Penalties::count(TokenId token) {
  if (counting_) ++output_count_[to_int(token)];
}

float Penalties::original(TokenId token, float now) const {
  for (const TokenLogit& entry : originals_)
    if (entry.token == token) return entry.logit;
  return now;
}

}  // namespace refrain::engine
