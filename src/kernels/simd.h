// Vec and IntVec: 16 floats or 32-bit integers for the instruction set this file is compiled for:
// one AVX-512 register, two of AVX2, four of what every processor has. Sixteen lanes everywhere, so
// that sums have the same order on all of them; with AVX2 and AVX-512 results are equal bit for
// bit. Only for .cpp files compiled once per instruction set: everything is in an anonymous
// namespace and nothing of the standard library that holds code is included, so that no function
// compiled for one instruction set is linked into code for another.
#pragma once

#include <cstdint>

#if defined(__AVX512F__) || defined(__F16C__)
#include <immintrin.h>
#endif

namespace refrain::kernels {
namespace {

#if defined(__AVX512F__)
#define REFRAIN_SIMD_AVX512 1
constexpr int kParts = 1;
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define REFRAIN_SIMD_AVX2 1
constexpr int kParts = 2;
#else
constexpr int kParts = 4;
#endif
constexpr int kLanes = 16;
constexpr int kPartLanes = kLanes / kParts;

typedef float Part __attribute__((vector_size(kPartLanes * 4)));
typedef std::int32_t IntPart __attribute__((vector_size(kPartLanes * 4)));

struct Vec {
  Part p[kParts];
};
struct IntVec {
  IntPart p[kParts];
};

#define REFRAIN_INLINE inline __attribute__((always_inline))
// For loops over registers: GCC keeps an array in registers only where every index is a constant.
#define REFRAIN_UNROLL _Pragma("GCC unroll 16")

template <class Function>
REFRAIN_INLINE Vec each_part(Function function) {
  Vec result;
  REFRAIN_UNROLL
  for (int i = 0; i < kParts; ++i) result.p[i] = function(i);
  return result;
}

template <class Function>
REFRAIN_INLINE IntVec each_int_part(Function function) {
  IntVec result;
  REFRAIN_UNROLL
  for (int i = 0; i < kParts; ++i) result.p[i] = function(i);
  return result;
}

REFRAIN_INLINE Vec load(const float* from) {
  Vec v;
  __builtin_memcpy(&v, from, sizeof(v));
  return v;
}
REFRAIN_INLINE IntVec load_int(const void* from) {
  IntVec v;
  __builtin_memcpy(&v, from, sizeof(v));
  return v;
}
REFRAIN_INLINE void store(float* to, Vec v) {
  __builtin_memcpy(to, &v, sizeof(v));
}
REFRAIN_INLINE void store_int(void* to, IntVec v) {
  __builtin_memcpy(to, &v, sizeof(v));
}

REFRAIN_INLINE Vec splat(float x) {
  return each_part([&](int) { return Part{} + x; });
}
REFRAIN_INLINE IntVec splat_int(std::int32_t x) {
  return each_int_part([&](int) { return IntPart{} + x; });
}

REFRAIN_INLINE Vec operator+(Vec a, Vec b) {
  return each_part([&](int i) { return a.p[i] + b.p[i]; });
}
REFRAIN_INLINE Vec operator-(Vec a, Vec b) {
  return each_part([&](int i) { return a.p[i] - b.p[i]; });
}
REFRAIN_INLINE Vec operator*(Vec a, Vec b) {
  return each_part([&](int i) { return a.p[i] * b.p[i]; });
}
REFRAIN_INLINE Vec operator/(Vec a, Vec b) {
  return each_part([&](int i) { return a.p[i] / b.p[i]; });
}
REFRAIN_INLINE IntVec operator+(IntVec a, IntVec b) {
  return each_int_part([&](int i) { return a.p[i] + b.p[i]; });
}
REFRAIN_INLINE IntVec operator-(IntVec a, IntVec b) {
  return each_int_part([&](int i) { return a.p[i] - b.p[i]; });
}
REFRAIN_INLINE IntVec operator&(IntVec a, IntVec b) {
  return each_int_part([&](int i) { return a.p[i] & b.p[i]; });
}
template <int Count>
REFRAIN_INLINE IntVec shift_left(IntVec a) {
  return each_int_part([&](int i) { return a.p[i] << Count; });
}
template <int Count>
REFRAIN_INLINE IntVec shift_right(IntVec a) {  // arithmetic
  return each_int_part([&](int i) { return a.p[i] >> Count; });
}
REFRAIN_INLINE IntVec bits_of(Vec a) {
  return each_int_part([&](int i) { return (IntPart)a.p[i]; });
}
REFRAIN_INLINE Vec value_of(IntVec a) {
  return each_part([&](int i) { return (Part)a.p[i]; });
}

// The larger one; b where either is NaN.
REFRAIN_INLINE Vec max(Vec a, Vec b) {
  return each_part([&](int i) { return a.p[i] > b.p[i] ? a.p[i] : b.p[i]; });
}
REFRAIN_INLINE IntVec max(IntVec a, IntVec b) {
  return each_int_part([&](int i) { return a.p[i] > b.p[i] ? a.p[i] : b.p[i]; });
}
REFRAIN_INLINE Vec absolute(Vec a) {
  return value_of(bits_of(a) & splat_int(0x7FFFFFFF));
}

// a * b + c; with one rounding where the processor has it, so never left to the optimiser.
REFRAIN_INLINE Vec multiply_add(Vec a, Vec b, Vec c) {
#if defined(REFRAIN_SIMD_AVX512)
  return each_part(
      [&](int i) { return (Part)_mm512_fmadd_ps((__m512)a.p[i], (__m512)b.p[i], (__m512)c.p[i]); });
#elif defined(REFRAIN_SIMD_AVX2)
  return each_part(
      [&](int i) { return (Part)_mm256_fmadd_ps((__m256)a.p[i], (__m256)b.p[i], (__m256)c.p[i]); });
#else
  return each_part([&](int i) { return a.p[i] * b.p[i] + c.p[i]; });
#endif
}

// `inside` where lane index is in [low, high), else `outside`.
REFRAIN_INLINE Vec select_lanes(std::int32_t low, std::int32_t high, Vec inside, Vec outside) {
  IntVec lane;
  REFRAIN_UNROLL
  for (int i = 0; i < kParts; ++i) {
    for (int j = 0; j < kPartLanes; ++j) lane.p[i][j] = i * kPartLanes + j;
  }
  return each_part([&](int i) {
    const IntPart chosen = (lane.p[i] >= low) & (lane.p[i] < high);
    return chosen ? inside.p[i] : outside.p[i];
  });
}

typedef float Four __attribute__((vector_size(16)));

// Folds 16 lanes to one in a fixed tree: lanes 8 apart, then 4, 2 and 1.
template <class Join>
REFRAIN_INLINE float fold(Vec v, Join join) {
  float lanes[kLanes];
  store(lanes, v);
  Four quarter[4];
  __builtin_memcpy(quarter, lanes, sizeof(quarter));
  const Four four = join(join(quarter[0], quarter[2]), join(quarter[1], quarter[3]));
  const Four two = join(four, __builtin_shufflevector(four, four, 2, 3, 2, 3));
  const Four one = join(two, __builtin_shufflevector(two, two, 1, 1, 1, 1));
  return one[0];
}
REFRAIN_INLINE float sum_lanes(Vec v) {
  return fold(v, [](Four a, Four b) { return a + b; });
}
REFRAIN_INLINE float max_lanes(Vec v) {  // no lane may be NaN
  return fold(v, [](Four a, Four b) { return a > b ? a : b; });
}

// kLanes values from d on; zeros beyond `count`.
REFRAIN_INLINE Vec load_part(const float* from, std::uint32_t d, std::uint32_t count) {
  if (d + kLanes <= count) return load(from + d);
  float part[kLanes] = {};
  for (std::uint32_t i = d; i < count; ++i) part[i - d] = from[i];
  return load(part);
}

REFRAIN_INLINE std::int32_t max_lanes(IntVec v) {
  typedef std::int32_t IntFour __attribute__((vector_size(16)));
  IntFour quarter[4];
  __builtin_memcpy(quarter, &v, sizeof(quarter));
  const auto join = [](IntFour a, IntFour b) { return a > b ? a : b; };
  const IntFour four = join(join(quarter[0], quarter[2]), join(quarter[1], quarter[3]));
  const IntFour two = join(four, __builtin_shufflevector(four, four, 2, 3, 2, 3));
  return join(two, __builtin_shufflevector(two, two, 1, 1, 1, 1))[0];
}

constexpr float kRounder = 12582912.0F;  // 1.5 * 2^23: adding it rounds to a whole number

// Largest magnitude / most; NaN for a row that is not finite.
inline float scale_of(const float* row, std::uint32_t count, float most) {
  IntVec top = {};
  for (std::uint32_t d = 0; d < count; d += kLanes) {
    // As integers, magnitudes are in the order of the floats, with NaN above infinity.
    top = max(bits_of(absolute(load_part(row, d, count))), top);
  }
  const std::int32_t largest = max_lanes(top);
  float magnitude;
  __builtin_memcpy(&magnitude, &largest, sizeof(magnitude));
  return largest < 0x7F800000 ? magnitude / most : __builtin_nanf("");
}

// round(v / scale), zero if the scale is zero or NaN.
inline IntVec rounded_quotient(Vec v, float scale, float most) {
  if (!(scale > 0.0F)) return IntVec{};
  // A tiny scale is itself rounded, so the quotient may lie beyond `most`.
  const Vec negative = max(splat(-most), splat(0.0F) - v / splat(scale));
  const Vec bounded = max(splat(-most), splat(0.0F) - negative);
  return bits_of(bounded + splat(kRounder)) - bits_of(splat(kRounder));
}

// float16 -> float, exact.
REFRAIN_INLINE Vec load_half(const std::uint16_t* from) {
#if defined(REFRAIN_SIMD_AVX512)
  return {(Part)_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)))};
#elif defined(REFRAIN_SIMD_AVX2)
  return each_part([&](int i) {
    return (Part)_mm256_cvtph_ps(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i * kPartLanes)));
  });
#else
  return each_part([&](int part) {
    IntPart half = {};
    for (int i = 0; i < kPartLanes; ++i) half[i] = from[part * kPartLanes + i];
    // Moves exponent and mantissa into place and corrects the exponent's bias by a product, which
    // is exact for subnormals too; infinities and NaN get their exponent back.
    const IntPart magnitude = (half & 0x7FFF) << 13;
    const Part value = (Part)magnitude * 0x1p112F;
    const IntPart special = (IntPart)(magnitude >= (0x7C00 << 13));
    return (Part)((IntPart)value | (special & 0x7F800000) | ((half & 0x8000) << 16));
  });
#endif
}

REFRAIN_INLINE Vec load_value(const std::uint16_t* from) {
  return load_half(from);
}
REFRAIN_INLINE Vec load_value(const float* from) {
  return load(from);
}

// float -> float16, to nearest even, NaN to a quiet NaN.
REFRAIN_INLINE void store_half(std::uint16_t* to, Vec v) {
#if defined(REFRAIN_SIMD_AVX512)
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_cvtps_ph((__m512)v.p[0], _MM_FROUND_TO_NEAREST_INT));
#elif defined(REFRAIN_SIMD_AVX2)
  for (int i = 0; i < kParts; ++i) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i * kPartLanes),
                     _mm256_cvtps_ph((__m256)v.p[i], _MM_FROUND_TO_NEAREST_INT));
  }
#else
  float lanes[kLanes];
  store(lanes, v);
  for (int i = 0; i < kLanes; ++i) {
    std::uint32_t bits;
    __builtin_memcpy(&bits, &lanes[i], sizeof(bits));
    const std::uint32_t sign = (bits >> 16) & 0x8000, magnitude = bits & 0x7FFFFFFF;
    std::uint32_t half;
    if (magnitude > 0x7F800000) {
      half = 0x7E00 | ((magnitude >> 13) & 0x1FF);
    } else if (magnitude >= 0x47800000) {  // 2^16 and more
      half = 0x7C00;
    } else if (magnitude < 0x38800000) {  // subnormal: adding 1/2 rounds to multiples of 2^-24
      float value;
      __builtin_memcpy(&value, &magnitude, sizeof(value));
      const float shifted = value + 0.5F;
      __builtin_memcpy(&half, &shifted, sizeof(half));
      half -= 0x3F000000;
    } else {
      half = (magnitude + 0xFFF + ((magnitude >> 13) & 1) - (112U << 23)) >> 13;
    }
    to[i] = static_cast<std::uint16_t>(sign | half);
  }
#endif
}

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

}  // namespace
}  // namespace refrain::kernels
