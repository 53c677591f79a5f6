// IdSource: ids that no two answers of any process share, e.g. "chatcmpl-" and 24 hexadecimal
// digits. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "base/str.h"

namespace refrain::serve {

class IdSource {
 public:
  // `seed` should differ between processes (start time, process id, random).
  explicit IdSource(std::uint64_t seed) : seed_(seed) {}

  std::string next(std::string_view prefix) {
    const std::uint64_t number = count_.fetch_add(1, std::memory_order_relaxed);
    return str_cat(prefix, to_hex(hash_text(str_cat(seed_, ':', number), seed_)).substr(0, 24));
  }

 private:
  const std::uint64_t seed_;
  std::atomic<std::uint64_t> count_{0};
};

}  // namespace refrain::serve
