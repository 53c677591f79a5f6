// Functions of vectors and rows on simd.h, with the same bits on every instruction set. Compiled
// once per instruction set, as simd.h.
#pragma once

#include "kernels/simd.h"

namespace refrain::kernels {
namespace {

constexpr float kLog2E = 1.44269504F;

// 2^x for x <= 0, relative error 1.6e-7; below -126 it stays at 2^-126. NaN stays NaN.
REFRAIN_INLINE Vec exp2_nonpositive(Vec argument) {
  const Vec x = max(splat(-126.0F), argument);
  const Vec magic = splat(kRounder + 127.0F);
  const Vec shifted = x + magic;  // the low bits are n + 127
  const Vec r = x - (shifted - magic);
  Vec y = splat(0.0013264727F);
  y = multiply_add(y, r, splat(0.009671513F));
  y = multiply_add(y, r, splat(0.055507336F));
  y = multiply_add(y, r, splat(0.24022242F));
  y = multiply_add(y, r, splat(0.693147F));
  y = multiply_add(y, r, splat(1.0F));
  return y * value_of(shift_left<23>(bits_of(shifted)));
}

// cap * tanh(x / cap), with tanh z = sign(z) (1 - e^(-2 |z|)) / (1 + e^(-2 |z|)). Where x is small
// the difference cancels: its error there is below 1e-7 of the cap. NaN stays NaN.
REFRAIN_INLINE Vec soft_capped(Vec x, float cap) {
  const Vec e = exp2_nonpositive(absolute(x) * splat(-2.0F * kLog2E / cap));
  const Vec size = splat(cap) * ((splat(1.0F) - e) / (splat(1.0F) + e));
  const IntVec sign = splat_int(static_cast<std::int32_t>(0x80000000U));
  return value_of((bits_of(size) & splat_int(0x7FFFFFFF)) | (bits_of(x) & sign));
}

// x * sigmoid(z) = x / (1 + e^-z), without overflow on either side; NaN stays NaN.
REFRAIN_INLINE Vec times_sigmoid(Vec x, Vec z) {
  const Vec e = exp2_nonpositive(absolute(z) * splat(-kLog2E));
  const Vec zero = splat(0.0F), whole = splat(1.0F) + e;
  // sigmoid(|z|) = 1 / (1 + e), sigmoid(-|z|) = e / (1 + e). x has the sign of z, so one of its two
  // parts is zero.
  return max(zero, x) * (splat(1.0F) / whole) + min(zero, x) * (e / whole);
}

REFRAIN_INLINE float float_of(std::int32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}

// The largest magnitude of a row; NaN if it has one.
REFRAIN_INLINE float largest_magnitude(const float* row, std::uint32_t count) {
  IntVec top = splat_int(0);
  for (std::uint32_t d = 0; d < count; d += kLanes) {
    // As integers, magnitudes are in the order of the floats, with NaN above infinity.
    top = max(bits_of(absolute(load_part(row, d, count))), top);
  }
  return float_of(max_lanes(top));
}

REFRAIN_INLINE bool is_finite(float magnitude) {
  return magnitude <= 3.4028235e38F;
}

// Largest magnitude / most; NaN for a row that is not finite.
inline float scale_of(const float* row, std::uint32_t count, float most) {
  const float largest = largest_magnitude(row, count);
  return is_finite(largest) ? largest / most : __builtin_nanf("");
}

// round(v / scale), zero where the scale is zero or NaN.
inline IntVec rounded_quotient(Vec v, Vec scale, float most) {
  const Vec zero = splat(0.0F), least = splat(-most);
  const Vec divisor =
      each_part([&](int i) { return scale.p[i] > zero.p[i] ? scale.p[i] : splat(1.0F).p[i]; });
  // A tiny scale is itself rounded, so the quotient may lie beyond `most`.
  const IntVec whole = rounded(max(least, zero - max(least, zero - v / divisor)));
  return each_int_part([&](int i) { return (IntPart)(scale.p[i] > zero.p[i]) & whole.p[i]; });
}
inline IntVec rounded_quotient(Vec v, float scale, float most) {
  return rounded_quotient(v, splat(scale), most);
}

}  // namespace
}  // namespace refrain::kernels
