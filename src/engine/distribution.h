// Distribution: what one row of logits says, read without changing it: validity, the maximum, the
// log of the partition function and the most probable tokens. The logprobs of the API come from
// here, before any temperature, penalty or truncation. Plain functions; engine thread.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace refrain::engine {

struct LogitScan {
  bool finite = false;  // no NaN and no infinity among the logits
  float max = 0.0F;     // valid if finite
};

// One pass over the row.
LogitScan scan_logits(std::span<const float> logits);

// log(sum(exp(logits))), in double and in ascending token order: the same bits for the same row.
double log_sum_exp(std::span<const float> logits, float max);

// D(softmax(expected) || softmax(actual)) in nats, of rows of one length; NaN where either has one.
double divergence(std::span<const float> expected, std::span<const float> actual);

struct TokenLogit {
  TokenId token{};
  float logit = 0.0F;
};

// Higher logit first; of equal ones the lower token id.
inline bool ranks_before(const TokenLogit& a, const TokenLogit& b) {
  return a.logit != b.logit ? a.logit > b.logit : to_int(a.token) < to_int(b.token);
}

// The `count` best tokens, unordered. Linear: candidates above a running threshold are buffered
// and the buffer is cut back by nth_element whenever it has doubled.
std::vector<TokenLogit> best_tokens(std::span<const float> logits, std::size_t count);

// The best token, or nullopt-like token -1 if every logit is -infinity.
TokenLogit best_token(std::span<const float> logits);

// The two best tokens of a row of at least two.
struct Lead {
  TokenLogit first;
  TokenLogit second;
  double margin() const { return double{first.logit} - double{second.logit}; }
};
Lead lead_of(std::span<const float> logits);

}  // namespace refrain::engine
