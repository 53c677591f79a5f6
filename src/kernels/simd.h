// Vec and IntVec: 16 floats or 32-bit integers (64 bytes) for the instruction set this file is
// compiled for: one AVX-512 register, two of AVX2, four of what every processor has. Sixteen lanes
// everywhere, so that sums have the same order on all of them, and one IEEE operation or one fused
// step per lane, so that results are equal bit for bit; only multiply_add_apart() may differ. Only
// for .cpp files compiled once per instruction set: everything is in an anonymous namespace and
// nothing of the standard library that holds code is included, so that no function compiled for one
// instruction set is linked into code for another.
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

// Part by part: GCC would copy a Vec as a whole through memory.
REFRAIN_INLINE Vec load(const float* from) {
  return each_part([&](int i) {
    Part part;
    __builtin_memcpy(&part, from + i * kPartLanes, sizeof(part));
    return part;
  });
}
REFRAIN_INLINE IntVec load_int(const void* from) {
  return each_int_part([&](int i) {
    IntPart part;
    __builtin_memcpy(&part, static_cast<const char*>(from) + i * sizeof(part), sizeof(part));
    return part;
  });
}
REFRAIN_INLINE void store(float* to, Vec v) {
  REFRAIN_UNROLL
  for (int i = 0; i < kParts; ++i) __builtin_memcpy(to + i * kPartLanes, &v.p[i], sizeof(Part));
}
REFRAIN_INLINE void store_int(void* to, IntVec v) {
  REFRAIN_UNROLL
  for (int i = 0; i < kParts; ++i) {
    __builtin_memcpy(static_cast<char*>(to) + i * sizeof(IntPart), &v.p[i], sizeof(IntPart));
  }
}

// Not Part{} + x: that is an addition, and changes -0.
REFRAIN_INLINE Vec splat(float x) {
#if defined(REFRAIN_SIMD_AVX512)
  return {(Part)_mm512_set1_ps(x)};
#elif defined(REFRAIN_SIMD_AVX2)
  const Part part = (Part)_mm256_set1_ps(x);
  return {part, part};
#else
  const Part part = {x, x, x, x};
  return {part, part, part, part};
#endif
}
REFRAIN_INLINE IntVec splat_int(std::int32_t x) {
  return each_int_part([&](int) { return IntPart{} + x; });
}

REFRAIN_INLINE IntVec splat_byte(std::uint8_t x) {
  return splat_int(static_cast<std::int32_t>(0x01010101U * x));
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
REFRAIN_INLINE IntVec operator|(IntVec a, IntVec b) {
  return each_int_part([&](int i) { return a.p[i] | b.p[i]; });
}
// Shifts move whole lanes: for bytes, mask afterwards.
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

// -1 in lanes where a > b, else 0.
REFRAIN_INLINE IntVec above_lanes(Vec a, Vec b) {
  return each_int_part([&](int i) { return (IntPart)(a.p[i] > b.p[i]); });
}

// The larger, the smaller one; b where either is NaN.
REFRAIN_INLINE Vec max(Vec a, Vec b) {
  return each_part([&](int i) { return a.p[i] > b.p[i] ? a.p[i] : b.p[i]; });
}
REFRAIN_INLINE Vec min(Vec a, Vec b) {
  return each_part([&](int i) { return a.p[i] < b.p[i] ? a.p[i] : b.p[i]; });
}
REFRAIN_INLINE IntVec max(IntVec a, IntVec b) {
  return each_int_part([&](int i) { return a.p[i] > b.p[i] ? a.p[i] : b.p[i]; });
}
REFRAIN_INLINE Vec absolute(Vec a) {
  return value_of(bits_of(a) & splat_int(0x7FFFFFFF));
}

// a * b + c with one rounding on every processor. Without an instruction for it this is a function
// call for each lane: for steps that are few.
REFRAIN_INLINE Vec multiply_add(Vec a, Vec b, Vec c) {
#if defined(REFRAIN_SIMD_AVX512)
  return each_part(
      [&](int i) { return (Part)_mm512_fmadd_ps((__m512)a.p[i], (__m512)b.p[i], (__m512)c.p[i]); });
#elif defined(REFRAIN_SIMD_AVX2)
  return each_part(
      [&](int i) { return (Part)_mm256_fmadd_ps((__m256)a.p[i], (__m256)b.p[i], (__m256)c.p[i]); });
#else
  return each_part([&](int i) {
    Part sum;
    for (int j = 0; j < kPartLanes; ++j) sum[j] = __builtin_fmaf(a.p[i][j], b.p[i][j], c.p[i][j]);
    return sum;
  });
#endif
}

// a * b + c with one rounding where the processor has it and two where not: for long sums.
REFRAIN_INLINE Vec multiply_add_apart(Vec a, Vec b, Vec c) {
#if defined(REFRAIN_SIMD_AVX512) || defined(REFRAIN_SIMD_AVX2) || defined(__FMA__)
  return multiply_add(a, b, c);
#else
  return a * b + c;
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
  Four quarter[4];
  __builtin_memcpy(quarter, &v, sizeof(quarter));
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

REFRAIN_INLINE void store_part(float* to, std::uint32_t d, std::uint32_t count, Vec v) {
  if (d + kLanes <= count) return store(to + d, v);
  float part[kLanes];
  store(part, v);
  for (std::uint32_t i = d; i < count; ++i) to[i] = part[i - d];
}

typedef std::int32_t IntFour __attribute__((vector_size(16)));

template <class Join>
REFRAIN_INLINE std::int32_t fold(IntVec v, Join join) {
  IntFour quarter[4];
  __builtin_memcpy(quarter, &v, sizeof(quarter));
  const IntFour four = join(join(quarter[0], quarter[2]), join(quarter[1], quarter[3]));
  const IntFour two = join(four, __builtin_shufflevector(four, four, 2, 3, 2, 3));
  return join(two, __builtin_shufflevector(two, two, 1, 1, 1, 1))[0];
}
REFRAIN_INLINE std::int32_t sum_lanes(IntVec v) {
  return fold(v, [](IntFour a, IntFour b) { return a + b; });
}
REFRAIN_INLINE std::int32_t max_lanes(IntVec v) {
  return fold(v, [](IntFour a, IntFour b) { return a > b ? a : b; });
}

// Bit i: lane i, which is -1 or 0.
REFRAIN_INLINE std::uint32_t lane_mask(IntVec a) {
#if defined(REFRAIN_SIMD_AVX512)
  return _mm512_cmplt_epi32_mask((__m512i)a.p[0], _mm512_setzero_si512());
#elif defined(REFRAIN_SIMD_AVX2)
  std::uint32_t mask = 0;
  for (int i = 0; i < kParts; ++i) {
    mask |= static_cast<std::uint32_t>(_mm256_movemask_ps((__m256)a.p[i])) << (kPartLanes * i);
  }
  return mask;
#else
  std::uint32_t mask = 0;
  for (int i = 0; i < kLanes; ++i) {
    mask |= static_cast<std::uint32_t>(a.p[i / kPartLanes][i % kPartLanes] & 1) << i;
  }
  return mask;
#endif
}

constexpr float kRounder = 12582912.0F;  // 1.5 * 2^23: adding it rounds to a whole number

// Exact for |lane| < 2^24.
REFRAIN_INLINE Vec to_float(IntVec a) {
  return each_part([&](int i) { return __builtin_convertvector(a.p[i], Part); });
}

// The nearest whole number, halves to even; |lane| < 2^22.
REFRAIN_INLINE IntVec rounded(Vec v) {
#if defined(REFRAIN_SIMD_AVX512)
  // Not the unmasked form: GCC 12 takes its undefined operand for an uninitialized variable.
  return {(IntPart)_mm512_maskz_cvtps_epi32(0xFFFF, (__m512)v.p[0])};
#elif defined(REFRAIN_SIMD_AVX2)
  return each_int_part([&](int i) { return (IntPart)_mm256_cvtps_epi32((__m256)v.p[i]); });
#else
  return bits_of(v + splat(kRounder)) - bits_of(splat(kRounder));
#endif
}

// The lowest byte of each lane.
REFRAIN_INLINE void store_low_bytes(void* to, IntVec a) {
#if defined(REFRAIN_SIMD_AVX512)
  _mm_storeu_si128(static_cast<__m128i*>(to), _mm512_cvtepi32_epi8((__m512i)a.p[0]));
#elif defined(REFRAIN_SIMD_AVX2)
  const __m256i low =
      _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,  //
                       0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  for (int i = 0; i < kParts; ++i) {
    const __m256i fours = _mm256_shuffle_epi8((__m256i)a.p[i], low);  // in lanes 0 and 4
    const __m256i eight =
        _mm256_permutevar8x32_epi32(fours, _mm256_setr_epi32(0, 4, 1, 1, 1, 1, 1, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(static_cast<char*>(to) + i * kPartLanes),
                     _mm256_castsi256_si128(eight));
  }
#else
  std::int32_t lanes[kLanes];
  store_int(lanes, a);
  for (int i = 0; i < kLanes; ++i)
    static_cast<std::uint8_t*>(to)[i] = static_cast<std::uint8_t>(lanes[i]);
#endif
}

REFRAIN_INLINE IntPart widened(const std::uint8_t* from) {
#if defined(REFRAIN_SIMD_AVX512)
  return (IntPart)_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#elif defined(REFRAIN_SIMD_AVX2)
  return (IntPart)_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
#else
  typedef std::uint8_t BytePart __attribute__((vector_size(kPartLanes)));
  BytePart bytes;
  __builtin_memcpy(&bytes, from, sizeof(bytes));
  return __builtin_convertvector(bytes, IntPart);
#endif
}
REFRAIN_INLINE IntPart widened(const std::int8_t* from) {
#if defined(REFRAIN_SIMD_AVX512)
  return (IntPart)_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#elif defined(REFRAIN_SIMD_AVX2)
  return (IntPart)_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
#else
  typedef std::int8_t BytePart __attribute__((vector_size(kPartLanes)));
  BytePart bytes;
  __builtin_memcpy(&bytes, from, sizeof(bytes));
  return __builtin_convertvector(bytes, IntPart);
#endif
}
REFRAIN_INLINE IntPart widened(const std::uint16_t* from) {
#if defined(REFRAIN_SIMD_AVX512)
  return (IntPart)_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#elif defined(REFRAIN_SIMD_AVX2)
  return (IntPart)_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#else
  typedef std::uint16_t HalfPart __attribute__((vector_size(kPartLanes * 2)));
  HalfPart halves;
  __builtin_memcpy(&halves, from, sizeof(halves));
  return __builtin_convertvector(halves, IntPart);
#endif
}

// 16 bytes as floats; Byte: std::uint8_t or std::int8_t.
template <class Byte>
REFRAIN_INLINE Vec load_bytes(const Byte* from) {
  return to_float(each_int_part([&](int i) { return widened(from + i * kPartLanes); }));
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

// bfloat16 -> float, exact.
REFRAIN_INLINE Vec load_bfloat(const std::uint16_t* from) {
  return value_of(each_int_part([&](int i) { return widened(from + i * kPartLanes) << 16; }));
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

}  // namespace
}  // namespace refrain::kernels
