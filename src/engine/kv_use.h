// KvUse: how many token slots a request holds over its life. The use between two notes is that of
// the first. Engine thread.
//
//   tokens     |      ______
//              | ____|      |__      peak 6, mean = area / time
//              +------------------ ticks
//                ^admitted
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace refrain::engine {

class KvUse {
 public:
  // From `now` on it holds so many. Ticks never fall.
  void note(Tick now, std::uint64_t tokens) {
    if (!began_) {
      began_ = true;
      began_at_ = noted_at_ = now;
    }
    area_ += static_cast<double>(now - noted_at_) * static_cast<double>(tokens_);
    noted_at_ = now;
    tokens_ = tokens;
    peak_ = std::max(peak_, tokens);
  }

  std::uint64_t tokens() const { return tokens_; }
  std::uint64_t peak() const { return peak_; }
  // Until the last note; what is held now where no time has passed.
  double mean() const {
    const Tick time = noted_at_ - began_at_;
    return time > 0 ? area_ / static_cast<double>(time) : static_cast<double>(tokens_);
  }
  double age_s() const { return to_seconds(noted_at_ - began_at_); }
  bool began() const { return began_; }

 private:
  bool began_ = false;
  Tick began_at_ = 0;
  Tick noted_at_ = 0;
  std::uint64_t tokens_ = 0;
  std::uint64_t peak_ = 0;
  double area_ = 0;  // tokens x ticks
};

}  // namespace refrain::engine
