#include "engine/audit_book.h"

#include "base/check.h"
#include "engine/distribution.h"

namespace refrain::engine {

Audit compare_first_token(std::span<const float> exact, std::span<const float> approximate,
                          double allowed) {
  CHECK(exact.size() == approximate.size(), "rows of two models");
  return {.divergence = divergence(exact, approximate),
          .same_first_token = best_token(exact).token == best_token(approximate).token,
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
  if (!(divergence <= allowed)) broken_ = true;  // NaN keeps no promise
}

}  // namespace refrain::engine
