// SamplingParams: how the next token is chosen; names and ranges as in the OpenAI API and its
// common extensions. Plain data; checked by validate() before it reaches the engine.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace refrain::engine {

struct LogitBias {
  TokenId token{};
  float bias = 0.0F;  // -100 .. 100; <= -100 forbids the token
};

struct SamplingParams {
  float temperature = 1.0F;         // 0 = greedy; 0 .. 100
  std::int32_t top_k = 0;           // 0 or -1 = off
  float top_p = 1.0F;               // (0, 1]
  float min_p = 0.0F;               // [0, 1)
  float repetition_penalty = 1.0F;  // > 0, over prompt and output
  float presence_penalty = 0.0F;    // -2 .. 2, over output
  float frequency_penalty = 0.0F;   // -2 .. 2, over output
  std::vector<LogitBias> logit_bias;
  std::optional<std::uint64_t> seed;
  std::int32_t top_logprobs = -1;  // -1 = no logprobs; 0..20 = sampled token plus that many others

  // kInvalidArgument with the field's public name.
  Result<void> validate(std::size_t vocabulary_size) const;
};

}  // namespace refrain::engine
