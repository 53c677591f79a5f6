// Remainders: memory for what storing takes from the values of some rows, and which of them rows
// see. For tests that call the kernels themselves; model/open_tile.h does it for batches.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/kv_rows.h"

namespace refrain::kernels {

// By the definition of float16.
inline double half_value(std::uint16_t half) {
  const int exponent = half >> 10 & 31, fraction = half & 1023;
  const double sign = half >> 15 == 0 ? 1.0 : -1.0;
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : std::nan("");
  return sign *
         (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25));
}

struct Remainders {
  std::size_t width = 0;               // numbers of a row
  std::vector<std::uint16_t> numbers;  // float16 [rows][kv_head_count][value_columns]
  std::vector<RemainderRow> rows;      // where each one's lie

  Remainders() = default;
  Remainders(const KvLayout& layout, std::size_t count)
      : width(std::size_t{layout.kv_head_count} * layout.value_columns), numbers(count * width) {
    for (std::size_t i = 0; i < count; ++i) rows.push_back({numbers.data() + i * width, 0});
  }
  Remainders(const Remainders&) = delete;
  Remainders& operator=(const Remainders&) = delete;
  Remainders(Remainders&&) = default;
  Remainders& operator=(Remainders&&) = default;

  // Row i is that of position i of a sequence: what the row at `position` sees of its tile.
  void append_seen(std::uint32_t position, std::vector<RemainderRow>& seen) const {
    const std::uint32_t begin = position / kTileTokens * kTileTokens;
    for (std::uint32_t at = begin; at < begin + kTileTokens; ++at)
      seen.push_back(at <= position ? rows[at] : RemainderRow{});
  }
};

}  // namespace refrain::kernels
