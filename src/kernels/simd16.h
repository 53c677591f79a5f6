// Sixteen-lane vectors for products and row operations: F16 (floats), I16 (32-bit integers), B64
// (64 bytes), for the instruction set this file is compiled for. Every operation gives the same
// bits on every instruction set: multiply_add16 rounds once everywhere, all else is one IEEE
// operation per lane. Only for .cpp files compiled once per instruction set, with
// -ffp-contract=off: anonymous namespace, no code of the standard library (see simd.h).
#pragma once

#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace refrain::kernels {
namespace {

#if !defined(REFRAIN_INLINE)
#define REFRAIN_INLINE inline __attribute__((always_inline))
#endif

#if defined(__AVX512F__) && defined(__AVX512VNNI__) && defined(__AVX512BW__)
#include "kernels/simd16_avx512.h"
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "kernels/simd16_avx2.h"
#else
#include "kernels/simd16_portable.h"
#endif

// e^x for x <= 0, relative error about 2e-7; below -87 it stays at e^-87. NaN gives e^-87: callers
// that must show it do so themselves. The method is that of simd.h.
REFRAIN_INLINE F16 exp_nonpositive16(F16 argument) {
  const F16 x = max16(argument, splat16(-87.0F));
  const F16 magic = splat16(12582912.0F);  // 1.5 * 2^23: adding it rounds to an integer
  const F16 shifted = multiply_add16(x, splat16(1.44269504F), magic);
  const F16 n = subtract16(shifted, magic);
  F16 r = multiply_add16(n, splat16(-0.693359375F), x);
  r = multiply_add16(n, splat16(2.12194440e-4F), r);
  F16 y = splat16(1.0F / 5040);
  y = multiply_add16(y, r, splat16(1.0F / 720));
  y = multiply_add16(y, r, splat16(1.0F / 120));
  y = multiply_add16(y, r, splat16(1.0F / 24));
  y = multiply_add16(y, r, splat16(1.0F / 6));
  y = multiply_add16(y, r, splat16(0.5F));
  y = multiply_add16(y, r, splat16(1.0F));
  y = multiply_add16(y, r, splat16(1.0F));
  const I16 exponent = shift_left_int16<23>(subtract_int16(bits_of16(shifted), bits_of16(magic)));
  return float_of_bits16(add_int16(bits_of16(y), exponent));
}

// The sum of the lanes, always in the same order: halves onto each other.
REFRAIN_INLINE float sum16(F16 v) {
  float lane[16];
  store16(lane, v);
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lane[i] += lane[i + width];
  }
  return lane[0];
}

}  // namespace
}  // namespace refrain::kernels
