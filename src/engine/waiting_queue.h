// WaitingQueue: choices that wait for blocks, and in which order they are tried. Round-robin over
// tenants, first in first out inside one. One that does not fit now may be passed by others that
// fit, but only kMaxPasses times: then nothing is admitted before it, so it is not starved.
//
//   tenant a:  a1 a2 a3          tried: a1, b1, c1, a2, ...   (the next round begins behind the
//   tenant b:  b1                                              tenant admitted last)
//   tenant c:  c1 c2
//
// Where the long class has used up its part of the pool, its choices wait for one another only: the
// others are not held up by them and do not count as passing them.
//
// Engine thread.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <string>

#include "engine/sequence.h"

namespace refrain::engine {

class WaitingQueue {
 public:
  static constexpr std::uint32_t kMaxPasses = 16;
  static constexpr std::uint32_t kMaxRefusals = 8;  // tries without success per round

  enum class Verdict {
    kAdmitted,   // leaves the queue
    kEnded,      // leaves the queue too: refused for good
    kNotNow,     // does not fit now
    kClassFull,  // long, and long ones hold their part already; no other long one is tried
    kFull,       // nothing at all fits now; the round ends
  };

  void push_back(const std::string& tenant, Sequence& sequence);
  // In front of its tenant's others: further choices of a request that already runs.
  void push_front(const std::string& tenant, Sequence& sequence);
  // Harmless if it is not here.
  void remove(const std::string& tenant, const Sequence& sequence);
  bool empty() const { return by_tenant_.empty(); }

  // Tries waiting choices in fair order until nothing more fits.
  void admit(const std::function<Verdict(Sequence&)>& try_admit);

 private:
  struct Entry {
    Sequence* sequence;
    std::uint64_t arrival;
    std::uint32_t passed = 0;  // admissions since it was first refused
  };
  using Line = std::list<Entry>;
  using Tenants = std::map<std::string, Line>;
  class Round;

  void erase(Tenants::iterator tenant, Line::iterator entry);

  Tenants by_tenant_;
  std::string last_admitted_;  // tenant
  std::uint64_t next_arrival_ = 0;
};

}  // namespace refrain::engine
