// Turns the stored keys of a tile to other positions, compiled once per instruction set; the
// including file defines REFRAIN_VARIANT. A lane is a token, so that all 16 turn together. Products
// and sums round as in row_body.h and quotients as in kv_store_body.h: what comes out are the bytes
// that storing the turned keys would write. Spread keys are gathered, turned and spread again. Read
// kv_layout.h first.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu_kernel_variants.h"
#include "kernels/hadamard.h"
#include "kernels/kv_store_body.h"
#include "kernels/simd_bytes.h"
#include "kernels/simd_math.h"

namespace refrain::kernels {
namespace {

// Turns the pairs of `keys` [key_dim][16] in place.
inline void turn_pairs(float* keys, const Rotation& rotation) {
  const std::size_t pairs = rotation.dimensions / 2;
  for (std::size_t i = 0; i < pairs; ++i) {
    float* at_a = keys + (rotation.halves ? i : 2 * i) * kTileTokens;
    float* at_b = keys + (rotation.halves ? i + pairs : 2 * i + 1) * kTileTokens;
    const Vec c = splat(rotation.cosine[i]), s = splat(rotation.sine[i]);
    const Vec a = load(at_a), b = load(at_b);
    store(at_a, a * c - b * s);
    store(at_b, a * s + b * c);
  }
}

inline void turn_f16_tile(const KvLayout& layout, const std::byte* tile, const Rotation& rotation,
                          std::byte* turned, float* keys) {
  const auto* from = reinterpret_cast<const std::uint16_t*>(tile);
  auto* to = reinterpret_cast<std::uint16_t*>(turned);
  const std::size_t count = std::size_t{layout.key_dim} * kTileTokens;
  for (std::size_t i = 0; i < count; i += kLanes) store(keys + i, load_half(from + i));
  turn_pairs(keys, rotation);
  for (std::size_t i = 0; i < count; i += kLanes) store_half(to + i, load(keys + i));
}

// Byte `Index` of each lane, a key's value + 128, times the lane's scale.
template <int Index>
REFRAIN_INLINE Vec expand_byte(IntVec four, Vec scale) {
  return to_float((shift_right<8 * Index>(four) & splat_int(255)) + splat_int(-128)) * scale;
}

// As scale_of() of simd_math.h, for 16 rows at once: keys [key_dim][16].
inline void scales_of(const float* keys, std::uint32_t key_dim, float* scales) {
  IntVec top = splat_int(0);
  for (std::size_t d = 0; d < key_dim; ++d) {
    top = max(bits_of(absolute(load(keys + d * kTileTokens))), top);
  }
  store(scales, value_of(top));
  for (std::uint32_t token = 0; token < kTileTokens; ++token) {
    scales[token] = is_finite(scales[token]) ? scales[token] / 127.0F : __builtin_nanf("");
  }
}

// keys [key_dim][16], as they are stored.
inline void turn_spread_keys(const KvLayout& layout, float* keys, const Rotation& rotation) {
  unspread(keys, layout.key_dim, layout.key_block, kTileTokens);
  turn_pairs(keys, rotation);
  spread(keys, layout.key_dim, layout.key_block, kTileTokens);
}

inline void turn_q8_tile(const KvLayout& layout, const std::byte* tile, const Rotation& rotation,
                         std::byte* turned, float* keys) {
  const std::size_t groups = layout.key_groups;
  const Vec scale = load(reinterpret_cast<const float*>(tile + layout.key_scales_at));
  for (std::size_t g = 0; g < groups; ++g) {
    const IntVec four = load_int(tile + g * 64);
    float* to = keys + g * 4 * kTileTokens;
    store(to, expand_byte<0>(four, scale));
    store(to + kTileTokens, expand_byte<1>(four, scale));
    store(to + 2 * std::size_t{kTileTokens}, expand_byte<2>(four, scale));
    store(to + 3 * std::size_t{kTileTokens}, expand_byte<3>(four, scale));
  }
  turn_spread_keys(layout, keys, rotation);
  float scales[kTileTokens];
  scales_of(keys, layout.key_dim, scales);
  const Vec divisor = load(scales);
  for (std::size_t g = 0; g < groups; ++g) {
    const float* from = keys + g * 4 * kTileTokens;
    const auto byte = [&](std::size_t index) {
      return rounded_quotient(load(from + index * kTileTokens), divisor, 127.0F) + splat_int(128);
    };
    store_int(turned + g * 64,
              byte(0) | shift_left<8>(byte(1)) | shift_left<16>(byte(2)) | shift_left<24>(byte(3)));
  }
  __builtin_memcpy(turned + layout.key_scales_at, scales, sizeof(scales));
}

// Keys are rounded one by one, as when they are stored.
inline void turn_q4_tile(const KvLayout& layout, const std::byte* tile, const Rotation& rotation,
                         std::byte* turned, float* keys) {
  const Vec scale = load(reinterpret_cast<const float*>(tile + layout.key_scales_at));
  for (std::size_t g = 0; g < layout.key_groups; ++g) {
    const IntVec packed = load_int(tile + g / 2 * 64);
    const IntVec codes = (g % 2 == 0 ? packed : shift_right<4>(packed)) & splat_byte(15);
    std::int8_t levels[kLanes * 4];
    store_int(levels, look_up_bytes(kQ4Levels, codes));
    for (std::size_t i = 0; i < 4; ++i) {
      float each[kLanes];
      for (int token = 0; token < kLanes; ++token) {
        each[token] = static_cast<float>(levels[static_cast<std::size_t>(token) * 4 + i]);
      }
      store(keys + (g * 4 + i) * kTileTokens, load(each) * scale);
    }
  }
  turn_spread_keys(layout, keys, rotation);
  float row[kMaxHeadDim];
  for (std::uint32_t token = 0; token < kTileTokens; ++token) {
    for (std::size_t d = 0; d < layout.key_dim; ++d) row[d] = keys[d * kTileTokens + token];
    store_key(layout, turned, token, row);
  }
}

}  // namespace

void REFRAIN_VARIANT(turn_key_tile)(const KvLayout& layout, const std::byte* tile,
                                    const Rotation& rotation, std::byte* turned, float* scratch) {
  switch (layout.key_side) {
    case KvSide::kF16:
      return turn_f16_tile(layout, tile, rotation, turned, scratch);
    case KvSide::kQ8:
      return turn_q8_tile(layout, tile, rotation, turned, scratch);
    case KvSide::kQ4:
      return turn_q4_tile(layout, tile, rotation, turned, scratch);
  }
}

}  // namespace refrain::kernels
