// What the multiply-adds of an instruction set reach when nothing else holds them up: on registers
// alone, with enough independent sums to hide their latency. Written once on simd16.h and compiled
// once per instruction set.
#pragma once

#include "kernels/simd16.h"

namespace refrain::kernels {
namespace {

#if defined(__AVX512F__)
constexpr int kPeakSums = 16;
#else
constexpr int kPeakSums = 4;  // of two registers each with AVX2
#endif
#define REFRAIN_UNROLL_SUMS _Pragma("GCC unroll 16")

// Makes the compiler forget what a value is, so that it neither folds nor shares a product.
REFRAIN_INLINE void forget(B64& v) {
#if defined(__AVX512F__)
  asm volatile("" : "+v"(v));
#elif defined(__AVX2__)
  asm volatile("" : "+x"(v.low), "+x"(v.high));
#else
  asm volatile("" : "+m"(v));
#endif
}

double int8_peak(std::uint32_t rounds, float* sink) {
  std::int8_t four[4] = {1, 1, 1, 1};
  asm volatile("" : "+m"(four));
  B64 weights = splat_byte(1);
  I16 sum[kPeakSums];
  REFRAIN_UNROLL_SUMS
  for (int i = 0; i < kPeakSums; ++i) sum[i] = splat_int16(0);
  for (std::uint32_t round = 0; round < rounds; ++round) {
    REFRAIN_UNROLL_SUMS
    for (int i = 0; i < kPeakSums; ++i) {
      forget(weights);
      sum[i] = dot4<false>(sum[i], weights, four);
    }
  }
  I16 total = splat_int16(0);
  REFRAIN_UNROLL_SUMS
  for (int i = 0; i < kPeakSums; ++i) total = add_int16(total, sum[i]);
  std::int32_t lane[16];
  store_int16(lane, total);
  *sink = 0.0F;
  for (const std::int32_t x : lane) *sink += static_cast<float>(x);
  return 128.0 * kPeakSums * rounds;
}

// Without an instruction for it, the fused step of simd16.h is a call; two plain ones do more.
REFRAIN_INLINE F16 fastest_multiply_add(F16 a, F16 b, F16 c) {
#if defined(__FMA__)
  return multiply_add16(a, b, c);
#else
  return add16(multiply16(a, b), c);
#endif
}

double float_peak(std::uint32_t rounds, float* sink) {
  float half_of = 0.5F, starts[kPeakSums + 1];
  for (float& start : starts) start = 1.0F;
  // Each sum has a start of its own, as far as the compiler knows; or it would compute one of them.
  asm volatile("" : "+m"(half_of), "+m"(starts));
  const F16 half = splat16(half_of), one = splat16(starts[kPeakSums]);
  F16 sum[kPeakSums];
  REFRAIN_UNROLL_SUMS
  for (int i = 0; i < kPeakSums; ++i) sum[i] = splat16(starts[i]);
  for (std::uint32_t round = 0; round < rounds; ++round) {
    REFRAIN_UNROLL_SUMS
    for (int i = 0; i < kPeakSums; ++i) sum[i] = fastest_multiply_add(sum[i], half, one);
  }
  F16 total = zero16();
  REFRAIN_UNROLL_SUMS
  for (int i = 0; i < kPeakSums; ++i) total = add16(total, sum[i]);
  *sink = sum16(total);
  return 32.0 * kPeakSums * rounds;
}

}  // namespace
}  // namespace refrain::kernels
