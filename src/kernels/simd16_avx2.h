// simd16.h for AVX2 with FMA and F16C; included by it alone, inside its namespaces.
#pragma once

struct F16 {
  __m256 low, high;
};
struct I16 {
  __m256i low, high;
};
using B64 = I16;

REFRAIN_INLINE F16 load16(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
REFRAIN_INLINE void store16(float* p, F16 v) {
  _mm256_storeu_ps(p, v.low);
  _mm256_storeu_ps(p + 8, v.high);
}
REFRAIN_INLINE F16 zero16() {
  return {_mm256_setzero_ps(), _mm256_setzero_ps()};
}
REFRAIN_INLINE F16 splat16(float x) {
  return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
REFRAIN_INLINE I16 splat_int16(std::int32_t x) {
  return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
}
REFRAIN_INLINE F16 to_float16(I16 v) {
  return {_mm256_cvtepi32_ps(v.low), _mm256_cvtepi32_ps(v.high)};
}
REFRAIN_INLINE F16 multiply16(F16 a, F16 b) {
  return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
REFRAIN_INLINE F16 multiply_add16(F16 a, F16 b, F16 c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
REFRAIN_INLINE __m256i load32(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
REFRAIN_INLINE __m128i load8(const void* p) {
  return _mm_loadl_epi64(static_cast<const __m128i*>(p));
}
REFRAIN_INLINE B64 load64(const std::uint8_t* p) {
  return {load32(p), load32(p + 32)};
}
REFRAIN_INLINE void store64(std::uint8_t* p, B64 v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v.low);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32), v.high);
}
REFRAIN_INLINE F16 load_half16(const std::uint16_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
REFRAIN_INLINE F16 load_bytes16(const std::uint8_t* p) {
  return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(load8(p))),
          _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(load8(p + 8)))};
}
REFRAIN_INLINE F16 load_signed_bytes16(const std::int8_t* p) {
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load8(p))),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load8(p + 8)))};
}
REFRAIN_INLINE B64 splat_byte(std::uint8_t x) {
  return {_mm256_set1_epi8(static_cast<char>(x)), _mm256_set1_epi8(static_cast<char>(x))};
}
REFRAIN_INLINE B64 and64(B64 a, B64 b) {
  return {_mm256_and_si256(a.low, b.low), _mm256_and_si256(a.high, b.high)};
}
REFRAIN_INLINE B64 or64(B64 a, B64 b) {
  return {_mm256_or_si256(a.low, b.low), _mm256_or_si256(a.high, b.high)};
}
template <int Count>
REFRAIN_INLINE B64 shift_right64(B64 v) {
  return {_mm256_srli_epi16(v.low, Count), _mm256_srli_epi16(v.high, Count)};
}
template <int Count>
REFRAIN_INLINE B64 shift_left64(B64 v) {
  return {_mm256_slli_epi16(v.low, Count), _mm256_slli_epi16(v.high, Count)};
}

// Pairs of 8-bit products are added in 16 bits, which saturates for weights of 8 bits (Full): those
// are multiplied in two halves of 16-bit lanes instead.
template <bool Full>
REFRAIN_INLINE __m256i dot4_half(__m256i sum, __m256i w, __m256i a) {
  const __m256i ones = _mm256_set1_epi16(1);
  if constexpr (Full) {
    const __m256i low_byte = _mm256_set1_epi16(0x00FF);
    const __m256i w_even = _mm256_and_si256(w, low_byte), w_odd = _mm256_srli_epi16(w, 8);
    const __m256i a_even = _mm256_srai_epi16(_mm256_slli_epi16(a, 8), 8);
    const __m256i a_odd = _mm256_srai_epi16(a, 8);
    return _mm256_add_epi32(
        sum, _mm256_add_epi32(_mm256_madd_epi16(w_even, a_even), _mm256_madd_epi16(w_odd, a_odd)));
  } else {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(w, a), ones));
  }
}
template <bool Full>
REFRAIN_INLINE I16 dot4(I16 sum, B64 w, const std::int8_t* a) {
  std::int32_t four;
  __builtin_memcpy(&four, a, 4);
  const __m256i all = _mm256_set1_epi32(four);
  return {dot4_half<Full>(sum.low, w.low, all), dot4_half<Full>(sum.high, w.high, all)};
}

#define REFRAIN_BOTH16(function) {function(a.low, b.low), function(a.high, b.high)}
REFRAIN_INLINE F16 add16(F16 a, F16 b) {
  return REFRAIN_BOTH16(_mm256_add_ps);
}
REFRAIN_INLINE F16 subtract16(F16 a, F16 b) {
  return REFRAIN_BOTH16(_mm256_sub_ps);
}
REFRAIN_INLINE F16 divide16(F16 a, F16 b) {
  return REFRAIN_BOTH16(_mm256_div_ps);
}
REFRAIN_INLINE F16 max16(F16 a, F16 b) {
  return REFRAIN_BOTH16(_mm256_max_ps);
}
REFRAIN_INLINE F16 min16(F16 a, F16 b) {
  return REFRAIN_BOTH16(_mm256_min_ps);
}
REFRAIN_INLINE I16 bits_of16(F16 v) {
  return {_mm256_castps_si256(v.low), _mm256_castps_si256(v.high)};
}
REFRAIN_INLINE F16 float_of_bits16(I16 v) {
  return {_mm256_castsi256_ps(v.low), _mm256_castsi256_ps(v.high)};
}
REFRAIN_INLINE I16 add_int16(I16 a, I16 b) {
  return REFRAIN_BOTH16(_mm256_add_epi32);
}
REFRAIN_INLINE I16 subtract_int16(I16 a, I16 b) {
  return REFRAIN_BOTH16(_mm256_sub_epi32);
}
REFRAIN_INLINE I16 and_int16(I16 a, I16 b) {
  return REFRAIN_BOTH16(_mm256_and_si256);
}
REFRAIN_INLINE I16 max_unsigned16(I16 a, I16 b) {
  return REFRAIN_BOTH16(_mm256_max_epu32);
}
#undef REFRAIN_BOTH16
template <int Count>
REFRAIN_INLINE I16 shift_left_int16(I16 v) {
  return {_mm256_slli_epi32(v.low, Count), _mm256_slli_epi32(v.high, Count)};
}
REFRAIN_INLINE I16 round_to_int16(F16 v) {
  return {_mm256_cvtps_epi32(v.low), _mm256_cvtps_epi32(v.high)};
}
REFRAIN_INLINE void store_bytes16(std::int8_t* p, I16 v) {
  const __m256i pairs = _mm256_permute4x64_epi64(_mm256_packs_epi32(v.low, v.high), 0xD8);
  const __m128i bytes =
      _mm_packs_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}
REFRAIN_INLINE std::int32_t sum_int16(I16 v) {
  const __m256i eight = _mm256_add_epi32(v.low, v.high);
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
  return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xB1)));
}
REFRAIN_INLINE std::int32_t largest_int16(I16 v) {
  const __m256i eight = _mm256_max_epi32(v.low, v.high);
  __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4E));
  return _mm_cvtsi128_si32(_mm_max_epi32(four, _mm_shuffle_epi32(four, 0xB1)));
}
REFRAIN_INLINE void store_int16(std::int32_t* p, I16 v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v.low);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), v.high);
}
REFRAIN_INLINE __m256 load_bfloat8(const std::uint16_t* p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(
      _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), 16));
}
REFRAIN_INLINE F16 load_bfloat16(const std::uint16_t* p) {
  return {load_bfloat8(p), load_bfloat8(p + 8)};
}
