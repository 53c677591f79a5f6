// Penalties: repetition, presence and frequency penalties and the logit bias of one choice. They
// touch only the tokens that occurred or are named, so a large vocabulary costs nothing. The values
// before the change are kept, because logprobs are those of the model. Engine thread.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "engine/distribution.h"
#include "engine/sampling.h"

namespace refrain::engine {

class Penalties {
 public:
  Penalties(const SamplingParams& params, std::span<const TokenId> prompt);

  // Changes `logits` in place.
  //   seen in prompt or output:  logit > 0 ? logit / repetition : logit * repetition
  //   seen n times in output:    logit -= presence + n * frequency
  //   biased:                    logit += bias; a bias of -100 forbids the token
  void apply(std::span<float> logits);
  // One more generated token.
  void count(TokenId token);
  // The logit of `token` before the last apply(); `now` if it was not touched.
  float original(TokenId token, float now) const;

 private:
  void touch(std::span<float> logits, TokenId token, float changed);

  const SamplingParams params_;
  const bool counting_;
  std::unordered_map<std::int32_t, std::uint32_t> output_count_;  // 0: in the prompt only
  std::vector<TokenLogit> originals_;                             // first entry of a token counts
};

}  // namespace refrain::engine
