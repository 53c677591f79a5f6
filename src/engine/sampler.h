// Sampler: chooses the next token of one choice from a row of logits. Equal seed and equal logits
// give equal tokens, whatever else is in the batch. One per choice; engine thread.
//
//   logits -> check -> (logprobs) -> penalties, bias -> grammar mask -> greedy | temperature,
//   top-k, top-p, min-p -> draw
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/rng.h"
#include "engine/grammar.h"
#include "engine/penalties.h"
#include "engine/sampling.h"

namespace refrain::engine {

struct TokenProbability {
  TokenId token{};
  float logprob = 0.0F;  // natural log, of the model's own distribution
};

struct Sample {
  TokenId token{};
  std::optional<float> logprob;       // when logprobs are asked for
  std::vector<TokenProbability> top;  // the `top_logprobs` most probable tokens, best first
};

// The logprob of `token` and of the `top_count` best tokens. kInternal if a logit is NaN or
// infinite. Used for prompts (echo), where nothing is sampled.
Result<Sample> read_logprobs(std::span<const float> logits, TokenId token, std::int32_t top_count);

class Sampler {
 public:
  // `seed` is already that of this choice. `prompt` counts for the repetition penalty.
  Sampler(const SamplingParams& params, std::uint64_t seed, std::span<const TokenId> prompt);

  // Whether the best token is always chosen.
  bool greedy() const { return params_.temperature == 0.0F || params_.top_k == 1; }
  // By how many logits the token that sample() would choose greedily leads; `logits` as there.
  double margin(std::span<float> logits, GrammarState* grammar);

  // logits: [vocabulary_size], overwritten. `grammar` may be null; it is not advanced.
  // kInternal: NaN or infinite logits; kInvalidArgument: bias and grammar leave no token.
  Result<Sample> sample(std::span<float> logits, GrammarState* grammar);

 private:
  void shape(std::span<float> logits, GrammarState* grammar);
  TokenId choose(std::span<const float> logits, const TokenLogit& best);

  const SamplingParams params_;
  Penalties penalties_;
  Rng rng_;
};

}  // namespace refrain::engine
