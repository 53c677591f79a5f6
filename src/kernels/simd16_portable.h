// simd16.h for any processor; included by it alone, inside its namespaces.
#pragma once

struct F16 {
  float v[16];
};
struct I16 {
  std::int32_t v[16];
};
struct B64 {
  std::uint8_t v[64];
};
#define REFRAIN_EACH16 for (int i = 0; i < 16; ++i)
#define REFRAIN_EACH64 for (int i = 0; i < 64; ++i)

REFRAIN_INLINE F16 load16(const float* p) {
  F16 r;
  REFRAIN_EACH16 r.v[i] = p[i];
  return r;
}
REFRAIN_INLINE void store16(float* p, F16 x) {
  REFRAIN_EACH16 p[i] = x.v[i];
}
REFRAIN_INLINE F16 zero16() {
  F16 r;
  REFRAIN_EACH16 r.v[i] = 0.0F;
  return r;
}
REFRAIN_INLINE F16 splat16(float x) {
  F16 r;
  REFRAIN_EACH16 r.v[i] = x;
  return r;
}
REFRAIN_INLINE I16 splat_int16(std::int32_t x) {
  I16 r;
  REFRAIN_EACH16 r.v[i] = x;
  return r;
}
REFRAIN_INLINE F16 to_float16(I16 x) {
  F16 r;
  REFRAIN_EACH16 r.v[i] = static_cast<float>(x.v[i]);
  return r;
}
REFRAIN_INLINE F16 multiply16(F16 a, F16 b) {
  F16 r;
  REFRAIN_EACH16 r.v[i] = a.v[i] * b.v[i];
  return r;
}
REFRAIN_INLINE F16 multiply_add16(F16 a, F16 b, F16 c) {
  F16 r;
  REFRAIN_EACH16 r.v[i] = __builtin_fmaf(a.v[i], b.v[i], c.v[i]);
  return r;
}
REFRAIN_INLINE B64 load64(const std::uint8_t* p) {
  B64 r;
  REFRAIN_EACH64 r.v[i] = p[i];
  return r;
}
REFRAIN_INLINE void store64(std::uint8_t* p, B64 x) {
  REFRAIN_EACH64 p[i] = x.v[i];
}
REFRAIN_INLINE float half_to_float(std::uint16_t half) {
  const std::uint32_t magnitude = (half & 0x7FFFU) << 13U;
  float value;
  __builtin_memcpy(&value, &magnitude, 4);
  value *= 0x1p112F;
  std::uint32_t bits;
  __builtin_memcpy(&bits, &value, 4);
  if (magnitude >= (0x7C00U << 13U)) bits |= 0x7F800000U;
  bits |= (half & 0x8000U) << 16U;
  __builtin_memcpy(&value, &bits, 4);
  return value;
}
REFRAIN_INLINE F16 load_half16(const std::uint16_t* p) {
  F16 r;
  REFRAIN_EACH16 r.v[i] = half_to_float(p[i]);
  return r;
}
REFRAIN_INLINE F16 load_bytes16(const std::uint8_t* p) {
  F16 r;
  REFRAIN_EACH16 r.v[i] = p[i];
  return r;
}
REFRAIN_INLINE F16 load_signed_bytes16(const std::int8_t* p) {
  F16 r;
  REFRAIN_EACH16 r.v[i] = p[i];
  return r;
}
REFRAIN_INLINE B64 splat_byte(std::uint8_t x) {
  B64 r;
  REFRAIN_EACH64 r.v[i] = x;
  return r;
}
REFRAIN_INLINE B64 and64(B64 a, B64 b) {
  B64 r;
  REFRAIN_EACH64 r.v[i] = a.v[i] & b.v[i];
  return r;
}
REFRAIN_INLINE B64 or64(B64 a, B64 b) {
  B64 r;
  REFRAIN_EACH64 r.v[i] = a.v[i] | b.v[i];
  return r;
}
template <int Count>
REFRAIN_INLINE B64 shift_right64(B64 x) {
  B64 r;
  REFRAIN_EACH64 r.v[i] = static_cast<std::uint8_t>(x.v[i] >> Count);
  return r;
}
template <int Count>
REFRAIN_INLINE B64 shift_left64(B64 x) {
  B64 r;
  REFRAIN_EACH64 r.v[i] = static_cast<std::uint8_t>(x.v[i] << Count);
  return r;
}
template <bool Full>
REFRAIN_INLINE I16 dot4(I16 sum, B64 w, const std::int8_t* a) {
  REFRAIN_EACH16 sum.v[i] +=
      w.v[4 * i] * a[0] + w.v[4 * i + 1] * a[1] + w.v[4 * i + 2] * a[2] + w.v[4 * i + 3] * a[3];
  return sum;
}

REFRAIN_INLINE F16 add16(F16 a, F16 b) {
  REFRAIN_EACH16 a.v[i] += b.v[i];
  return a;
}
REFRAIN_INLINE F16 subtract16(F16 a, F16 b) {
  REFRAIN_EACH16 a.v[i] -= b.v[i];
  return a;
}
REFRAIN_INLINE F16 divide16(F16 a, F16 b) {
  REFRAIN_EACH16 a.v[i] /= b.v[i];
  return a;
}
REFRAIN_INLINE F16 max16(F16 a, F16 b) {
  REFRAIN_EACH16 a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i];
  return a;
}
REFRAIN_INLINE F16 min16(F16 a, F16 b) {
  REFRAIN_EACH16 a.v[i] = a.v[i] < b.v[i] ? a.v[i] : b.v[i];
  return a;
}
REFRAIN_INLINE I16 bits_of16(F16 v) {
  I16 r;
  __builtin_memcpy(&r, &v, sizeof(r));
  return r;
}
REFRAIN_INLINE F16 float_of_bits16(I16 v) {
  F16 r;
  __builtin_memcpy(&r, &v, sizeof(r));
  return r;
}
REFRAIN_INLINE std::int32_t wrapped(std::uint32_t x) {
  std::int32_t r;
  __builtin_memcpy(&r, &x, 4);
  return r;
}
REFRAIN_INLINE std::uint32_t unsigned_of(std::int32_t x) {
  return static_cast<std::uint32_t>(x);
}
REFRAIN_INLINE I16 add_int16(I16 a, I16 b) {
  REFRAIN_EACH16 a.v[i] = wrapped(unsigned_of(a.v[i]) + unsigned_of(b.v[i]));
  return a;
}
REFRAIN_INLINE I16 subtract_int16(I16 a, I16 b) {
  REFRAIN_EACH16 a.v[i] = wrapped(unsigned_of(a.v[i]) - unsigned_of(b.v[i]));
  return a;
}
REFRAIN_INLINE I16 and_int16(I16 a, I16 b) {
  REFRAIN_EACH16 a.v[i] &= b.v[i];
  return a;
}
REFRAIN_INLINE I16 max_unsigned16(I16 a, I16 b) {
  REFRAIN_EACH16 a.v[i] = unsigned_of(a.v[i]) > unsigned_of(b.v[i]) ? a.v[i] : b.v[i];
  return a;
}
template <int Count>
REFRAIN_INLINE I16 shift_left_int16(I16 a) {
  REFRAIN_EACH16 a.v[i] = wrapped(unsigned_of(a.v[i]) << Count);
  return a;
}
REFRAIN_INLINE I16 round_to_int16(F16 v) {
  // Adding 1.5 * 2^23 rounds halves to even for |v| < 2^22; the callers stay far below.
  I16 r;
  REFRAIN_EACH16 r.v[i] = static_cast<std::int32_t>((v.v[i] + 12582912.0F) - 12582912.0F);
  return r;
}
REFRAIN_INLINE void store_bytes16(std::int8_t* p, I16 v) {
  REFRAIN_EACH16 p[i] = static_cast<std::int8_t>(v.v[i]);
}
REFRAIN_INLINE std::int32_t sum_int16(I16 v) {
  std::int32_t total = 0;
  REFRAIN_EACH16 total += v.v[i];
  return total;
}
REFRAIN_INLINE std::int32_t largest_int16(I16 v) {
  std::int32_t largest = v.v[0];
  REFRAIN_EACH16 largest = v.v[i] > largest ? v.v[i] : largest;
  return largest;
}
REFRAIN_INLINE void store_int16(std::int32_t* p, I16 v) {
  REFRAIN_EACH16 p[i] = v.v[i];
}
REFRAIN_INLINE F16 load_bfloat16(const std::uint16_t* p) {
  I16 r;
  REFRAIN_EACH16 r.v[i] = wrapped(std::uint32_t{p[i]} << 16U);
  return float_of_bits16(r);
}
