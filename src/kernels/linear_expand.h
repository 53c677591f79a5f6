// Expands packed weights to bytes and FP32 in scratch, where all rows then pass over them. Part of
// linear_body.h: compiled once per instruction set.
#pragma once

#include "kernels/linear_scratch.h"
#include "kernels/quant_layout.h"
#include "kernels/simd16.h"

namespace refrain::kernels {
namespace {

REFRAIN_INLINE void expand_nibbles(const std::uint8_t* from, std::uint8_t* to) {
  const B64 mask = splat_byte(0x0F);
  for (int v = 0; v < 4; ++v) {
    const B64 both = load64(from + 64 * v);
    store64(to + 64 * v, and64(both, mask));
    store64(to + 64 * (v + 4), and64(shift_right64<4>(both), mask));
  }
}

template <int Quad>
REFRAIN_INLINE void add_fifth_bit(B64 bits, std::uint8_t* to) {
  B64 placed;
  if constexpr (Quad <= 4) {
    placed = shift_left64<4 - Quad>(bits);
  } else {
    placed = shift_right64<Quad - 4>(bits);
  }
  store64(to + 64 * Quad, or64(load64(to + 64 * Quad), and64(placed, splat_byte(0x10))));
}

REFRAIN_INLINE void add_fifth_bits(const std::uint8_t* from, std::uint8_t* to) {
  const B64 bits = load64(from);
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
  const B64 mask = splat_byte(0x30);
  for (int half = 0; half < 2; ++half, to += 256) {
    const B64 bits = load64(from + 64 * half);
    store64(to, or64(load64(to), and64(shift_left64<4>(bits), mask)));
    store64(to + 64, or64(load64(to + 64), and64(shift_left64<2>(bits), mask)));
    store64(to + 128, or64(load64(to + 128), and64(bits, mask)));
    store64(to + 192, or64(load64(to + 192), and64(shift_right64<2>(bits), mask)));
  }
}

template <WeightType Type>
REFRAIN_INLINE void expand_group(const std::uint8_t* from, std::uint8_t* to) {
  if constexpr (Type == WeightType::kQ8_0) {
    for (int v = 0; v < 8; ++v) store64(to + 64 * v, load64(from + 64 * v));
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
    const F16 d = load_half16(halves(from + 192));
    const F16 m = multiply16(load_half16(halves(from + 224)), splat16(-1.0F));
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
      store16(scales + 16 * g, multiply16(d, load_bytes16(scale)));
      store16(minima + 16 * g, multiply16(m, load_bytes16(minimum)));
    }
  } else if constexpr (Type == WeightType::kQ6_K) {
    const F16 d = load_half16(halves(from + 256));
    for (int s = 0; s < 16; ++s) {
      store16(
          scales + 16 * s,
          multiply16(d, load_signed_bytes16(reinterpret_cast<const std::int8_t*>(from + 16 * s))));
    }
  } else {
    store16(scales, load_half16(halves(from)));
    if constexpr (traits_of(Type).has_minimum) store16(minima, load_half16(halves(from + 32)));
  }
}

template <WeightType Type>
REFRAIN_INLINE void expand_chunk(const std::uint8_t* from, std::uint32_t groups, LinearScratch& s) {
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
      store16(to, load16(reinterpret_cast<const float*>(from) + std::size_t{kPanelRows} * k));
    } else {
      const auto* p = reinterpret_cast<const std::uint16_t*>(from) + std::size_t{kPanelRows} * k;
      store16(to, Type == WeightType::kF16 ? load_half16(p) : load_bfloat16(p));
    }
  }
}

}  // namespace
}  // namespace refrain::kernels
