// What the multiply-adds of an instruction set reach when nothing else holds them up: on registers
// alone, with enough independent sums to hide their latency. Written once on simd.h and compiled
// once per instruction set.
#pragma once

#include "kernels/simd_bytes.h"

namespace refrain::kernels {
namespace {

#if defined(__AVX512F__)
constexpr int kPeakSums = 16;
#else
constexpr int kPeakSums = 4;  // of two registers each with AVX2
#endif

// Makes the compiler forget what a value is, so that it neither folds nor shares a product.
REFRAIN_INLINE void forget(IntVec& v) {
  REFRAIN_UNROLL
  for (int i = 0; i < kParts; ++i) {
#if defined(__x86_64__)
    asm volatile("" : "+x"(v.p[i]));
#else
    asm volatile("" : "+m"(v.p[i]));
#endif
  }
}

double int8_peak(std::uint32_t rounds, float* sink) {
  std::int32_t four = 0x01010101;
  asm volatile("" : "+m"(four));
  IntVec weights = splat_byte(1);
  IntVec sum[kPeakSums];
  REFRAIN_UNROLL
  for (int i = 0; i < kPeakSums; ++i) sum[i] = splat_int(0);
  for (std::uint32_t round = 0; round < rounds; ++round) {
    REFRAIN_UNROLL
    for (int i = 0; i < kPeakSums; ++i) {
      forget(weights);
      sum[i] = add_byte_products<true>(sum[i], weights, splat_int(four));
    }
  }
  IntVec total = splat_int(0);
  REFRAIN_UNROLL
  for (int i = 0; i < kPeakSums; ++i) total = total + sum[i];
  *sink = static_cast<float>(sum_lanes(total));
  return 128.0 * kPeakSums * rounds;
}

double float_peak(std::uint32_t rounds, float* sink) {
  float half_of = 0.5F, starts[kPeakSums + 1];
  for (float& start : starts) start = 1.0F;
  // Each sum has a start of its own, as far as the compiler knows; or it would compute one of them.
  asm volatile("" : "+m"(half_of), "+m"(starts));
  const Vec half = splat(half_of), one = splat(starts[kPeakSums]);
  Vec sum[kPeakSums];
  REFRAIN_UNROLL
  for (int i = 0; i < kPeakSums; ++i) sum[i] = splat(starts[i]);
  for (std::uint32_t round = 0; round < rounds; ++round) {
    REFRAIN_UNROLL
    for (int i = 0; i < kPeakSums; ++i) sum[i] = multiply_add_apart(sum[i], half, one);
  }
  Vec total = splat(0.0F);
  REFRAIN_UNROLL
  for (int i = 0; i < kPeakSums; ++i) total = total + sum[i];
  *sink = sum_lanes(total);
  return 32.0 * kPeakSums * rounds;
}

}  // namespace
}  // namespace refrain::kernels
