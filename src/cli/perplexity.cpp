// Windows and scores. Any thread.
#include "cli/perplexity.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace refrain::cli {

std::vector<ScoreWindow> score_windows(std::size_t token_count, std::size_t window,
                                       std::size_t stride, bool has_bos) {
  CHECK(window >= 2 && stride >= 1 && stride <= window, "windows of no use");
  std::vector<ScoreWindow> windows;
  std::size_t scored_to = 0;  // tokens before this are done
  for (std::size_t begin = 0; scored_to < token_count; begin += stride) {
    ScoreWindow next{
        .begin = begin, .end = std::min(begin + window, token_count), .scored_begin = scored_to};
    // Without BOS nothing predicts the window's first token.
    if (!has_bos) next.scored_begin = std::max(next.scored_begin, begin + 1);
    if (next.scored_begin < next.end) windows.push_back(next);
    scored_to = next.end;
  }
  return windows;
}

double negative_log_likelihood(std::span<const float> logits, TokenId target) {
  const float highest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - highest);
  return std::log(sum) + highest -
         static_cast<double>(logits[static_cast<std::size_t>(to_int(target))]);
}

}  // namespace refrain::cli
