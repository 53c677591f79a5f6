// Rounds rows to 4-bit codes (kQ4Levels), compiled once per instruction set, with the same bits on
// all of them. Read kv_layout.h first.
//
// A scale chooses levels, and the levels chosen have a scale of least squared error. Two scales are
// tried, the one that reaches the largest magnitude with the largest level and 0.9 of it; the
// better one's best scale chooses once more. So the error is never above that of the first, and for
// rows of 64 to 256 normal values within 3 % of what a search over scales finds.
#pragma once

#include <cstdint>

#include "kernels/kv_layout.h"
#include "kernels/simd_math.h"

namespace refrain::kernels {
namespace {

constexpr float kQ4Starts[] = {1.0F / 63.0F, 0.9F / 63.0F};
// A magnitude above an edge goes to the next level: edges halfway between the levels.
constexpr std::uint32_t kQ4Edges = 7;
constexpr float kQ4Edge[kQ4Edges] = {6.0F, 12.0F, 18.5F, 25.5F, 33.0F, 42.5F, 55.5F};
constexpr float kQ4Rise[kQ4Edges] = {6.0F, 6.0F, 7.0F, 7.0F, 8.0F, 11.0F, 15.0F};
constexpr float kQ4Least = 3.0F;

// Nearest level of magnitudes in units of the scale.
REFRAIN_INLINE Vec q4_level(Vec magnitude) {
  Vec level = splat(kQ4Least);
  REFRAIN_UNROLL
  for (std::uint32_t i = 0; i < kQ4Edges; ++i) {
    const IntVec above = above_lanes(magnitude, splat(kQ4Edge[i]));
    level = level + value_of(above & bits_of(splat(kQ4Rise[i])));
  }
  return level;
}

// Codes of values in units of the scale: 8 to 15 for levels above zero, 7 to 0 below.
REFRAIN_INLINE IntVec q4_code(Vec value) {
  const Vec magnitude = absolute(value);
  IntVec rank = splat_int(0);
  REFRAIN_UNROLL
  for (std::uint32_t i = 0; i < kQ4Edges; ++i) {
    rank = rank - above_lanes(magnitude, splat(kQ4Edge[i]));
  }
  const IntVec negative = above_lanes(splat(0.0F), value);
  return each_int_part([&](int i) { return negative.p[i] ? 7 - rank.p[i] : 8 + rank.p[i]; });
}

// Of the levels that a scale chooses for a row.
struct Q4Fit {
  float products;  // sum of value * level
  float squares;   // sum of level * level

  float scale() const { return products / squares; }            // of the least squared error
  float gain() const { return products * products / squares; }  // what that takes off the row's
};

// Magnitudes are at most 1.
inline Q4Fit fit_q4(const float* row, std::uint32_t dim, float scale) {
  const Vec divisor = splat(scale);
  Vec products = splat(0.0F), squares = splat(0.0F);
  for (std::uint32_t d = 0; d < dim; d += kLanes) {
    const Vec magnitude = absolute(load_part(row, d, dim));
    Vec level = q4_level(magnitude / divisor);
    if (d + kLanes > dim) {
      level = select_lanes(0, static_cast<std::int32_t>(dim - d), level, splat(0.0F));
    }
    products = products + magnitude * level;
    squares = squares + level * level;
  }
  return {sum_lanes(products), sum_lanes(squares)};
}

// Calls place(d, code) for all d; changes `row`. Returns the scale, NaN for a row that is not
// finite.
template <class Place>
inline float quantize_q4(float* row, std::uint32_t dim, Place place) {
  const float largest = largest_magnitude(row, dim);
  if (!is_finite(largest) || largest == 0.0F) {
    for (std::uint32_t d = 0; d < dim; ++d) place(d, 8);
    return largest == 0.0F ? 0.0F : __builtin_nanf("");
  }
  for (std::uint32_t d = 0; d < dim; d += kLanes) {
    store_part(row, d, dim, load_part(row, d, dim) / splat(largest));
  }
  const Q4Fit whole = fit_q4(row, dim, kQ4Starts[0]), less = fit_q4(row, dim, kQ4Starts[1]);
  const Q4Fit& better = less.gain() > whole.gain() ? less : whole;
  const float scale = fit_q4(row, dim, better.scale()).scale();
  for (std::uint32_t d = 0; d < dim; d += kLanes) {
    std::int32_t codes[kLanes];
    store_int(codes, q4_code(load_part(row, d, dim) / splat(scale)));
    const std::uint32_t count = dim - d < kLanes ? dim - d : kLanes;
    for (std::uint32_t i = 0; i < count; ++i) place(d + i, codes[i]);
  }
  return scale * largest;
}

}  // namespace
}  // namespace refrain::kernels
