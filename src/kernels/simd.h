// Vec: a vector of kLanes floats for the instruction set this file is compiled for, with the few
// operations the kernels need. Only for .cpp files compiled once per instruction set: everything
// is in an anonymous namespace and nothing of the standard library that holds code is included, so
// that no function compiled for one instruction set is linked into code for another.
#pragma once

#include <cstdint>

#if defined(__AVX512F__) || defined(__F16C__)
#include <immintrin.h>
#endif

namespace refrain::kernels {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define REFRAIN_SIMD_AVX2 1
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

typedef float Vec __attribute__((vector_size(kLanes * 4)));
typedef std::int32_t IntVec __attribute__((vector_size(kLanes * 4)));

#define REFRAIN_INLINE inline __attribute__((always_inline))

REFRAIN_INLINE Vec load(const float* p) {
  Vec v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}

REFRAIN_INLINE void store(float* p, Vec v) {
  __builtin_memcpy(p, &v, sizeof(v));
}

REFRAIN_INLINE Vec splat(float x) {
  return Vec{} + x;
}

REFRAIN_INLINE Vec max(Vec a, Vec b) {
  return a > b ? a : b;
}

// a * b + c; with one rounding where the processor has it, so never left to the optimiser.
REFRAIN_INLINE Vec multiply_add(Vec a, Vec b, Vec c) {
#if defined(__AVX512F__)
  return (Vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(REFRAIN_SIMD_AVX2)
  return (Vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
  return a * b + c;
#endif
}

// float16 -> float, exact.
REFRAIN_INLINE Vec load_half(const std::uint16_t* p) {
#if defined(__AVX512F__)
  return (Vec)_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
#elif defined(REFRAIN_SIMD_AVX2)
  return (Vec)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#else
  IntVec half = {};
  for (int i = 0; i < kLanes; ++i) half[i] = p[i];
  // Moves exponent and mantissa into place and corrects the exponent's bias by a product, which
  // is exact for subnormals too; infinities and NaN get their exponent back.
  const IntVec magnitude = (half & 0x7FFF) << 13;
  const Vec value = (Vec)magnitude * splat(0x1p112F);
  const IntVec special = (IntVec)(magnitude >= (0x7C00 << 13));
  return (Vec)((IntVec)value | (special & 0x7F800000) | ((half & 0x8000) << 16));
#endif
}

// e^x for x <= 0, relative error about 2e-7; below -87 it stays at e^-87.
// NaN stays NaN.
REFRAIN_INLINE Vec exp_nonpositive(Vec argument) {
  const Vec x = max(argument, splat(-87.0F));
  const Vec magic = splat(12582912.0F);  // 1.5 * 2^23: adding it rounds to an integer
  const Vec shifted = multiply_add(x, splat(1.44269504F), magic);
  const Vec n = shifted - magic;
  Vec r = multiply_add(n, splat(-0.693359375F), x);  // ln 2 in two parts (Cody and Waite)
  r = multiply_add(n, splat(2.12194440e-4F), r);
  Vec y = splat(1.0F / 5040);
  y = multiply_add(y, r, splat(1.0F / 720));
  y = multiply_add(y, r, splat(1.0F / 120));
  y = multiply_add(y, r, splat(1.0F / 24));
  y = multiply_add(y, r, splat(1.0F / 6));
  y = multiply_add(y, r, splat(0.5F));
  y = multiply_add(y, r, splat(1.0F));
  y = multiply_add(y, r, splat(1.0F));
  const IntVec exponent = (IntVec)shifted - (IntVec)magic;  // n, out of the mantissa bits
  const Vec result = (Vec)((IntVec)y + (exponent << 23));
  return argument == argument ? result : argument;
}

template <int... I>
struct Lanes {};
template <int N, int... I>
struct MakeLanes : MakeLanes<N - 1, N - 1, I...> {};
template <int... I>
struct MakeLanes<0, I...> {
  using type = Lanes<I...>;
};

// One step of the butterfly that transposes: swaps the lanes where bit `Width` differs.
template <int Width, int... I>
REFRAIN_INLINE void swap_lanes(Vec& a, Vec& b, Lanes<I...>) {
  const Vec low = __builtin_shufflevector(a, b, ((I & Width) == 0 ? I : kLanes + I - Width)...);
  b = __builtin_shufflevector(a, b, ((I & Width) == 0 ? I + Width : kLanes + I)...);
  a = low;
}

template <int Width>
REFRAIN_INLINE void transpose_step(Vec* rows) {
  for (int i = 0; i < kLanes; ++i) {
    if ((i & Width) == 0) swap_lanes<Width>(rows[i], rows[i + Width], MakeLanes<kLanes>::type{});
  }
}

// Transposes kLanes x kLanes floats held in registers.
REFRAIN_INLINE void transpose(Vec* rows) {
  transpose_step<1>(rows);
  transpose_step<2>(rows);
  if constexpr (kLanes >= 8) transpose_step<4>(rows);
  if constexpr (kLanes >= 16) transpose_step<8>(rows);
}

}  // namespace
}  // namespace refrain::kernels
