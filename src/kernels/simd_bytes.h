// Products and look-ups of bytes on the vectors of simd.h, for integer products and for attention
// over 8 bits and less. Exact: the same bits on every instruction set. Like simd.h it is compiled
// once per instruction set.
//
//   sum lane i   += a[4 i] b[4 i] + a[4 i + 1] b[4 i + 1] + a[4 i + 2] b[4 i + 2] + ...
#pragma once

#include "kernels/simd.h"

namespace refrain::kernels {
namespace {

// table[byte] for each byte, all below 16.
REFRAIN_INLINE IntVec look_up_bytes(const std::int8_t* table, IntVec bytes) {
#if defined(REFRAIN_SIMD_AVX512)
  const __m512i wide =
      _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  return {(IntPart)_mm512_shuffle_epi8(wide, (__m512i)bytes.p[0])};
#elif defined(REFRAIN_SIMD_AVX2)
  const __m256i wide =
      _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  return each_int_part(
      [&](int i) { return (IntPart)_mm256_shuffle_epi8(wide, (__m256i)bytes.p[i]); });
#else
  std::uint8_t each[kLanes * 4];
  store_int(each, bytes);
  for (std::uint8_t& byte : each) byte = static_cast<std::uint8_t>(table[byte]);
  return load_int(each);
#endif
}

// sum + the products of four unsigned bytes of `a` with four signed ones of `b`, lane by lane.
// Exact. Narrow: the magnitudes of two bytes that meet are at most 127 x 128 or 255 x 64, which
// AVX2 makes use of.
template <bool Narrow>
REFRAIN_INLINE IntVec add_byte_products(IntVec sum, IntVec a, IntVec b) {
#if defined(__AVX512VNNI__)
  return {(IntPart)_mm512_dpbusd_epi32((__m512i)sum.p[0], (__m512i)a.p[0], (__m512i)b.p[0])};
#elif defined(REFRAIN_SIMD_AVX2)
  return each_int_part([&](int i) {
    const __m256i x = (__m256i)a.p[i], y = (__m256i)b.p[i];
    if constexpr (Narrow) {
      const __m256i pairs = _mm256_maddubs_epi16(x, y);  // two products: no saturation
      return sum.p[i] + (IntPart)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    } else {
      const __m256i even = _mm256_madd_epi16(_mm256_and_si256(x, _mm256_set1_epi16(255)),
                                             _mm256_srai_epi16(_mm256_slli_epi16(y, 8), 8));
      const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(x, 8), _mm256_srai_epi16(y, 8));
      return sum.p[i] + (IntPart)_mm256_add_epi32(even, odd);
    }
  });
#else
  return each_int_part([&](int i) {
    const IntPart x = a.p[i], y = b.p[i];
    return sum.p[i] + (x & 255) * (y << 24 >> 24) + ((x >> 8) & 255) * (y << 16 >> 24) +
           ((x >> 16) & 255) * (y << 8 >> 24) + ((x >> 24) & 255) * (y >> 24);
  });
#endif
}

// The same with signed bytes in `a` of at most 128 and in `b` of at most 127; what `a` asks for
// alone is shared where it meets several `b`. AVX2 only: there it takes fewer steps than an offset.
#if defined(REFRAIN_SIMD_AVX2)
REFRAIN_INLINE IntVec add_signed_byte_products(IntVec sum, IntVec a, IntVec b) {
  return each_int_part([&](int i) {
    const __m256i x = (__m256i)a.p[i];
    const __m256i two =
        _mm256_maddubs_epi16(_mm256_abs_epi8(x), _mm256_sign_epi8((__m256i)b.p[i], x));
    return sum.p[i] + (IntPart)_mm256_madd_epi16(two, _mm256_set1_epi16(1));
  });
}
#endif

// `start` + products of bytes, vector by vector, as add_byte_products() has them; `a` holds bytes
// up to MaxByte. On AVX2 small ones are added up in 16 bits, as many as fit, and widened together:
// exact as well, and a third of the steps less for bytes of 4 bits.
template <int MaxByte>
class ByteSum {
 public:
  REFRAIN_INLINE void begin(std::int32_t start) { sum_ = splat_int(start); }

  // `i`: 0, 1, ... in order, known where this is compiled.
  REFRAIN_INLINE void add([[maybe_unused]] int i, IntVec a, IntVec b) {
#if defined(REFRAIN_SIMD_AVX2)
    if constexpr (kTogether > 1) {
      if (i % kTogether == 0 && i > 0) sum_ = total();
      const bool first = i % kTogether == 0;
      REFRAIN_UNROLL
      for (int part = 0; part < kParts; ++part) {
        const __m256i two = _mm256_maddubs_epi16((__m256i)a.p[part], (__m256i)b.p[part]);
        pairs_[part] = first ? two : _mm256_add_epi16(pairs_[part], two);
      }
      return;
    }
#endif
    sum_ = add_byte_products<(MaxByte < 128)>(sum_, a, b);
  }

  // After one add() at least.
  REFRAIN_INLINE IntVec total() const {
#if defined(REFRAIN_SIMD_AVX2)
    if constexpr (kTogether > 1) {
      return each_int_part([&](int i) {
        return sum_.p[i] + (IntPart)_mm256_madd_epi16(pairs_[i], _mm256_set1_epi16(1));
      });
    }
#endif
    return sum_;
  }

 private:
  IntVec sum_;
#if defined(REFRAIN_SIMD_AVX2)
  static constexpr int kTogether = 32767 / (2 * MaxByte * 128);
  __m256i pairs_[kParts];
#endif
};

}  // namespace
}  // namespace refrain::kernels
