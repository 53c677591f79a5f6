// Expands packed weights to bytes and FP32 in scratch, where all rows then pass over them. Part of
// linear_body.h: compiled once per instruction set.
#pragma once

#include "kernels/linear_scratch.h"
#include "kernels/quant_layout.h"
#include "kernels/simd.h"

namespace refrain::kernels {
namespace {

REFRAIN_INLINE void expand_nibbles(const std::uint8_t* from, std::uint8_t* to) {
  const IntVec mask = splat_byte(0x0F);
  for (int v = 0; v < 4; ++v) {
    const IntVec both = load_int(from + 64 * v);
    store_int(to + 64 * v, both & mask);
    store_int(to + 64 * (v + 4), shift_right<4>(both) & mask);
  }
}

template <int Quad>
REFRAIN_INLINE void add_fifth_bit(IntVec bits, std::uint8_t* to) {
  IntVec placed;
  if constexpr (Quad <= 4) {
    placed = shift_left<4 - Quad>(bits);
  } else {
    placed = shift_right<Quad - 4>(bits);
  }
  store_int(to + 64 * Quad, (load_int(to + 64 * Quad) | (placed & splat_byte(0x10))));
}

REFRAIN_INLINE void add_fifth_bits(const std::uint8_t* from, std::uint8_t* to) {
  const IntVec bits = load_int(from);
  add_fifth_bit<0>(bits, to);
  add_fifth_bit<1>(bits, to);
  add_fifth_bit<2>(bits, to);
  add_fifth_bit<3>(bits, to);
  add_fifth_bit<4>(bits, to);
  add_fifth_bit<5>(bits, to);
  add_fifth_bit<6>(bits, to);
  add_fifth_bit<7>(bits, to);
}

REFRAIN_INLINE void add_upper_pairs(const std::uint8_t* from, std::uint8_t* to) {
  const IntVec mask = splat_byte(0x30);
  for (int half = 0; half < 2; ++half, to += 256) {
    const IntVec bits = load_int(from + 64 * half);
    store_int(to, load_int(to) | (shift_left<4>(bits) & mask));
    store_int(to + 64, load_int(to + 64) | (shift_left<2>(bits) & mask));
    store_int(to + 128, load_int(to + 128) | (bits & mask));
    store_int(to + 192, load_int(to + 192) | (shift_right<2>(bits) & mask));
  }
}

template <WeightType Type>
REFRAIN_INLINE void expand_group(const std::uint8_t* from, std::uint8_t* to) {
  if constexpr (Type == WeightType::kQ8_0) {
    for (int v = 0; v < 8; ++v) store_int(to + 64 * v, load_int(from + 64 * v));
  } else {
    expand_nibbles(from, to);
    if constexpr (traits_of(Type).group_bytes == 320) add_fifth_bits(from + 256, to);
    if constexpr (traits_of(Type).group_bytes == 384) add_upper_pairs(from + 256, to);
  }
}

REFRAIN_INLINE const std::uint16_t* halves(const std::uint8_t* p) {
  return reinterpret_cast<const std::uint16_t*>(p);
}

// Scales of one superblock, `scales` and `minima` [subgroups][16].
template <WeightType Type>
REFRAIN_INLINE void expand_scales(const std::uint8_t* from, float* scales, float* minima) {
  if constexpr (Type == WeightType::kQ4_K || Type == WeightType::kQ5_K) {
    const Vec d = load_half(halves(from + 192));
    const Vec m = load_half(halves(from + 224)) * splat(-1.0F);
    for (int g = 0; g < 8; ++g) {
      std::uint8_t scale[16], minimum[16];
      const std::uint8_t* low = from + 16 * g;
      const std::uint8_t* high = from + 128 + 16 * (g / 2);
      const int shift = g % 2 == 0 ? 0 : 4;
      for (int i = 0; i < 16; ++i) {
        const unsigned upper = static_cast<unsigned>(high[i]) >> shift;
        scale[i] = static_cast<std::uint8_t>((low[i] & 15U) | ((upper & 3U) << 4U));
        minimum[i] = static_cast<std::uint8_t>((low[i] >> 4U) | (((upper >> 2U) & 3U) << 4U));
      }
      store(scales + 16 * g, d * load_bytes(scale));
      store(minima + 16 * g, m * load_bytes(minimum));
    }
  } else if constexpr (Type == WeightType::kQ6_K) {
    const Vec d = load_half(halves(from + 256));
    for (int s = 0; s < 16; ++s) {
      store(scales + 16 * s, (d * load_bytes(reinterpret_cast<const std::int8_t*>(from + 16 * s))));
    }
  } else {
    store(scales, load_half(halves(from)));
    if constexpr (traits_of(Type).has_minimum) store(minima, load_half(halves(from + 32)));
  }
}

template <WeightType Type>
REFRAIN_INLINE void expand_chunk(const std::uint8_t* from, std::uint32_t groups, PanelOfChunk& s) {
  constexpr QuantTraits kTraits = traits_of(Type);
  constexpr std::uint32_t kGroups = kTraits.superblock / kGroup;
  constexpr std::uint32_t kSubgroups = kTraits.halves ? 2 : 1;
  for (std::uint32_t g = 0; g < groups; g += kGroups) {
    for (std::uint32_t j = 0; j < kGroups; ++j, from += kTraits.group_bytes) {
      __builtin_prefetch(from + 2048);
      __builtin_prefetch(from + 2048 + 64);
      __builtin_prefetch(from + 2048 + 128);
      __builtin_prefetch(from + 2048 + 192);
      expand_group<Type>(from, s.weights + std::size_t{512} * (g + j));
    }
    expand_scales<Type>(from, s.scales + std::size_t{16} * kSubgroups * g,
                        s.minima + std::size_t{16} * g);
    from += kTraits.scale_bytes;
  }
}

// Columns of a floating panel -> [columns][16] floats.
template <WeightType Type>
REFRAIN_INLINE void expand_columns(const std::byte* from, std::uint32_t columns, float* to) {
  for (std::uint32_t k = 0; k < columns; ++k, to += kPanelRows) {
    if constexpr (Type == WeightType::kF32) {
      store(to, load(reinterpret_cast<const float*>(from) + std::size_t{kPanelRows} * k));
    } else {
      const auto* p = reinterpret_cast<const std::uint16_t*>(from) + std::size_t{kPanelRows} * k;
      store(to, Type == WeightType::kF16 ? load_half(p) : load_bfloat(p));
    }
  }
}

}  // namespace
}  // namespace refrain::kernels
