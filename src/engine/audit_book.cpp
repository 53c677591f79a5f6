#include "engine/audit_book.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "engine/distribution.h"

namespace refrain::engine {

Audit compare_first_token(std::span<const float> exact, std::span<const float> approximate,
                          double allowed) {
  CHECK(exact.size() == approximate.size(), "rows of two models");
  const TokenLogit best = best_token(exact), other = best_token(approximate);
  const double exact_sum = log_sum_exp(exact, best.logit);
  const double approximate_sum = log_sum_exp(approximate, other.logit);
  double divergence = 0.0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double log_p = double{exact[i]} - exact_sum;
    const double log_q = double{approximate[i]} - approximate_sum;
    divergence += std::exp(log_p) * (log_p - log_q);
  }
  return {.divergence = std::max(divergence, 0.0),
          .same_first_token = best.token == other.token,
          .allowed = allowed};
}

void AuditBook::add(const Audit& audit) {
  ++count_;
  recent_.push_back(audit);
  if (recent_.size() > kWindow) recent_.pop_front();
  if (recent_.size() < kLeast) return;
  double divergence = 0.0, allowed = 0.0;
  for (const Audit& each : recent_) {
    divergence += each.divergence;
    allowed += each.allowed;
  }
  if (divergence > allowed) broken_ = true;
}

}  // namespace refrain::engine
