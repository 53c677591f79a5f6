// simd16.h for AVX-512 with VNNI; included by it alone, inside its namespaces.
#pragma once

using F16 = __m512;
using I16 = __m512i;
using B64 = __m512i;

REFRAIN_INLINE F16 load16(const float* p) {
  return _mm512_loadu_ps(p);
}
REFRAIN_INLINE void store16(float* p, F16 v) {
  _mm512_storeu_ps(p, v);
}
REFRAIN_INLINE F16 zero16() {
  return _mm512_setzero_ps();
}
REFRAIN_INLINE F16 splat16(float x) {
  return _mm512_set1_ps(x);
}
REFRAIN_INLINE I16 splat_int16(std::int32_t x) {
  return _mm512_set1_epi32(x);
}
REFRAIN_INLINE F16 to_float16(I16 v) {
  return _mm512_cvtepi32_ps(v);
}
REFRAIN_INLINE F16 multiply16(F16 a, F16 b) {
  return _mm512_mul_ps(a, b);
}
REFRAIN_INLINE F16 multiply_add16(F16 a, F16 b, F16 c) {
  return _mm512_fmadd_ps(a, b, c);
}
REFRAIN_INLINE B64 load64(const std::uint8_t* p) {
  return _mm512_loadu_si512(p);
}
REFRAIN_INLINE void store64(std::uint8_t* p, B64 v) {
  _mm512_storeu_si512(p, v);
}
REFRAIN_INLINE F16 load_half16(const std::uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
REFRAIN_INLINE F16 load_bytes16(const std::uint8_t* p) {  // unsigned
  return _mm512_cvtepi32_ps(
      _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
REFRAIN_INLINE F16 load_signed_bytes16(const std::int8_t* p) {
  return _mm512_cvtepi32_ps(
      _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
REFRAIN_INLINE B64 splat_byte(std::uint8_t x) {
  return _mm512_set1_epi8(static_cast<char>(x));
}
REFRAIN_INLINE B64 and64(B64 a, B64 b) {
  return _mm512_and_si512(a, b);
}
REFRAIN_INLINE B64 or64(B64 a, B64 b) {
  return _mm512_or_si512(a, b);
}
// Shifts cross byte borders: mask afterwards.
template <int Count>
REFRAIN_INLINE B64 shift_right64(B64 v) {
  return _mm512_srli_epi16(v, Count);
}
template <int Count>
REFRAIN_INLINE B64 shift_left64(B64 v) {
  return _mm512_slli_epi16(v, Count);
}
// sum[i] += w[4i..4i+3] . a[0..3]; w unsigned, a signed. Exact.
template <bool Full>
REFRAIN_INLINE I16 dot4(I16 sum, B64 w, const std::int8_t* a) {
  std::int32_t four;
  __builtin_memcpy(&four, a, 4);
  return _mm512_dpbusd_epi32(sum, w, _mm512_set1_epi32(four));
}

REFRAIN_INLINE F16 add16(F16 a, F16 b) {
  return _mm512_add_ps(a, b);
}
REFRAIN_INLINE F16 subtract16(F16 a, F16 b) {
  return _mm512_sub_ps(a, b);
}
REFRAIN_INLINE F16 divide16(F16 a, F16 b) {
  return _mm512_div_ps(a, b);
}
// b where one of them is NaN.
REFRAIN_INLINE F16 max16(F16 a, F16 b) {
  return _mm512_max_ps(a, b);
}
REFRAIN_INLINE F16 min16(F16 a, F16 b) {
  return _mm512_min_ps(a, b);
}
REFRAIN_INLINE I16 bits_of16(F16 v) {
  return _mm512_castps_si512(v);
}
REFRAIN_INLINE F16 float_of_bits16(I16 v) {
  return _mm512_castsi512_ps(v);
}
REFRAIN_INLINE I16 add_int16(I16 a, I16 b) {
  return _mm512_add_epi32(a, b);
}
REFRAIN_INLINE I16 subtract_int16(I16 a, I16 b) {
  return _mm512_sub_epi32(a, b);
}
REFRAIN_INLINE I16 and_int16(I16 a, I16 b) {
  return _mm512_and_si512(a, b);
}
REFRAIN_INLINE I16 max_unsigned16(I16 a, I16 b) {
  return _mm512_max_epu32(a, b);
}
template <int Count>
REFRAIN_INLINE I16 shift_left_int16(I16 v) {
  return _mm512_slli_epi32(v, Count);
}
// Nearest integer, halves to even; |v| < 2^31.
REFRAIN_INLINE I16 round_to_int16(F16 v) {
  return _mm512_cvtps_epi32(v);
}
// Lanes within -128..127.
REFRAIN_INLINE void store_bytes16(std::int8_t* p, I16 v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(v));
}
// Exact: the sum of the lanes; the largest of non-negative lanes.
REFRAIN_INLINE std::int32_t sum_int16(I16 v) {
  return _mm512_reduce_add_epi32(v);
}
REFRAIN_INLINE std::int32_t largest_int16(I16 v) {
  return _mm512_reduce_max_epi32(v);
}
REFRAIN_INLINE void store_int16(std::int32_t* p, I16 v) {
  _mm512_storeu_si512(p, v);
}
REFRAIN_INLINE F16 load_bfloat16(const std::uint16_t* p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(
      _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16));
}
