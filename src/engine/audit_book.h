// AuditBook: what exact recomputation showed of answers that were given over approximate context,
// and whether the promise still holds. Plain values; engine thread.
//
// Judged are the last kWindow audits, from kLeast on: the promise is broken if their mean KL is
// above the mean of what their requests allowed. Then approximate reuse stops until the process is
// started again, with a new calibration.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>

namespace refrain::engine {

struct Audit {
  double divergence = 0;  // KL in nats of the first token of the answer, exact || approximate
  bool same_first_token = true;  // the likeliest one
  double allowed = 0;            // nats
};

// Both [vocabulary_size], of the prompt's last row.
Audit compare_first_token(std::span<const float> exact, std::span<const float> approximate,
                          double allowed);

class AuditBook {
 public:
  static constexpr std::size_t kWindow = 64, kLeast = 16;

  void add(const Audit& audit);
  // The promise did not hold; stays so.
  bool broken() const { return broken_; }
  std::uint64_t count() const { return count_; }

 private:
  std::deque<Audit> recent_;
  std::uint64_t count_ = 0;
  bool broken_ = false;
};

}  // namespace refrain::engine
