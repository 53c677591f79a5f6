// Truncation: which tokens top-k, top-p and min-p leave in the draw, and the draw itself. A cut is
// the least probable token that stays; all that rank behind it are out. Nothing is ever sorted.
//
//   rank   1  2  3  4 | 5  6 ...          cut = the token of rank 4
//
// All three act on the distribution after temperature: top-k first, top-p on what top-k left
// (renormalised), min-p relative to the most probable token. Plain functions; engine thread.
#pragma once

#include <span>

#include "base/ids.h"
#include "base/rng.h"
#include "engine/distribution.h"
#include "engine/sampling.h"

namespace refrain::engine {

// `max` is the highest of `logits`; temperature > 0. Masked tokens are -infinity.
TokenLogit find_cut(std::span<const float> logits, float max, const SamplingParams& params);

// Draws one of the tokens that do not rank behind `cut`, with probability proportional to
// exp((logit - max) / temperature). Takes exactly one number from `rng`.
TokenId draw(std::span<const float> logits, float max, const TokenLogit& cut, float temperature,
             Rng& rng);

}  // namespace refrain::engine
