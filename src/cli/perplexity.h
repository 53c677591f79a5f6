// Perplexity over a text: windows of tokens, and the score of one row of logits. Pure functions;
// any thread. Definition used everywhere: exp(mean negative log-likelihood in nats) over scored
// tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace refrain::cli {

// Tokens [begin, end) of the text form one window; of these, [scored_begin, end) count. What lies
// before is context only:
//
//   stride < window:   |----------scored----------|
//                             |--context--|-scored-|
//
// Every token is scored once; the first token of a window counts only behind a BOS token.
struct ScoreWindow {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t scored_begin = 0;
};

// `window` tokens each, begun every `stride` tokens (1 .. window). The BOS token, if any, is not
// one of the window's tokens.
std::vector<ScoreWindow> score_windows(std::size_t token_count, std::size_t window,
                                       std::size_t stride, bool has_bos);

// -log softmax(logits)[target], in double.
double negative_log_likelihood(std::span<const float> logits, TokenId target);

}  // namespace refrain::cli
