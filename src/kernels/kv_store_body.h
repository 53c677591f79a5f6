// Rounds rows of keys and values to their stored form, compiled once per instruction set; the
// including file defines REFRAIN_VARIANT. All of them write the same bytes: conversions round to
// nearest even and quotients are exact. Read kv_layout.h first.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu_kernel_variants.h"
#include "kernels/hadamard.h"
#include "kernels/kv_q4_body.h"
#include "kernels/simd_math.h"

namespace refrain::kernels {
namespace {

inline void store_f16_key(std::uint16_t* at, const float* row, std::uint32_t dim) {
  for (std::uint32_t d = 0; d < dim; d += kLanes) {
    std::uint16_t halves[kLanes];
    store_half(halves, load_part(row, d, dim));
    const std::uint32_t count = dim - d < kLanes ? dim - d : kLanes;
    for (std::uint32_t i = 0; i < count; ++i) at[std::size_t{d + i} * kTileTokens] = halves[i];
  }
}

inline void store_f16_value(std::uint16_t* at, const float* row, std::uint32_t dim) {
  for (std::uint32_t d = 0; d < dim; d += kLanes) store_half(at + d, load_part(row, d, dim));
}

// Calls place(d, round(row[d] / scale)) for all d. Returns the scale, NaN for a row that is not
// finite.
template <class Place>
inline float quantize_q8(const float* row, std::uint32_t dim, Place place) {
  const float scale = scale_of(row, dim, 127.0F);
  for (std::uint32_t d = 0; d < dim; d += kLanes) {
    std::int32_t values[kLanes];
    store_int(values, rounded_quotient(load_part(row, d, dim), scale, 127.0F));
    const std::uint32_t count = dim - d < kLanes ? dim - d : kLanes;
    for (std::uint32_t i = 0; i < count; ++i) place(d + i, values[i]);
  }
  return scale;
}

// The first of the two codes of a byte comes first.
REFRAIN_INLINE void place_code(std::uint8_t* byte, bool second, std::int32_t code) {
  *byte = static_cast<std::uint8_t>(second ? *byte | code << 4 : code);
}

// `key` is spread already, and may change.
inline void store_key(const KvLayout& layout, std::byte* tile, std::uint32_t token, float* key) {
  const std::uint32_t dim = layout.key_dim;
  if (layout.key_side == KvSide::kF16) {
    store_f16_key(reinterpret_cast<std::uint16_t*>(tile) + token, key, dim);
    return;
  }
  auto* at = reinterpret_cast<std::uint8_t*>(tile) + std::size_t{token} * 4;
  const float scale =
      layout.key_side == KvSide::kQ8
          ? quantize_q8(key, dim,
                        [&](std::uint32_t d, std::int32_t rounded) {
                          at[std::size_t{d / 4} * 64 + d % 4] =
                              static_cast<std::uint8_t>(rounded + 128);
                        })
          : quantize_q4(key, dim, [&](std::uint32_t d, std::int32_t code) {
              place_code(at + std::size_t{d / 8} * 64 + d % 4, d / 4 % 2 == 1, code);
            });
  __builtin_memcpy(tile + layout.key_scales_at + token * 4, &scale, 4);
}

// What a value has beyond level * scale, in float16: at most its largest number, zero in padding.
// Of a row that is not finite it is NaN.
inline void store_remainder(const float* value, const float* levels, float scale, std::uint32_t dim,
                            std::uint32_t columns, std::uint16_t* to) {
  const Vec most = splat(65504.0F), least = splat(-65504.0F);
  for (std::uint32_t d = 0; d < columns; d += kLanes) {
    Vec rest = splat(0.0F);
    if (d < dim) rest = load_part(value, d, dim) - load_part(levels, d, dim) * splat(scale);
    // Kept where it is not a number: max() passes over NaN.
    store_half(to + d, scale == scale ? max(least, min(most, rest)) : splat(scale));
  }
}

inline float store_q8_value(std::uint8_t* at, const float* value, std::uint32_t dim) {
  return quantize_q8(value, dim, [&](std::uint32_t d, std::int32_t rounded) {
    at[std::size_t{d} * 4] = static_cast<std::uint8_t>(rounded);
  });
}

inline float store_q4_value(std::uint8_t* at, float* value, std::uint32_t dim,
                            std::uint32_t columns, std::uint16_t* remainder) {
  float rest[kMaxHeadDim];
  __builtin_memcpy(rest, value, dim * sizeof(float));
  float levels[kMaxHeadDim];
  const float scale = quantize_q4(value, dim, [&](std::uint32_t d, std::int32_t code) {
    place_code(at + std::size_t{d / 32 * 16 + d % 16} * 4, d / 16 % 2 == 1, code);
    levels[d] = kQ4Levels[code];
  });
  store_remainder(rest, levels, scale, dim, columns, remainder);
  return scale;
}

// `value` is spread already, and may change. `remainder` [value_columns] receives what rounding
// took from it, where the layout keeps that.
inline void store_value(const KvLayout& layout, std::byte* tile, std::uint32_t token, float* value,
                        std::uint16_t* remainder) {
  const std::uint32_t dim = layout.value_dim;
  const std::size_t columns = layout.value_columns;
  if (layout.value_side == KvSide::kF16) {
    store_f16_value(reinterpret_cast<std::uint16_t*>(tile) + token * columns, value, dim);
    return;
  }
  auto* at = reinterpret_cast<std::uint8_t*>(tile);
  const float scale =
      layout.value_side == KvSide::kQ8
          ? store_q8_value(at + std::size_t{token / 4} * columns * 4 + token % 4, value, dim)
          : store_q4_value(at + std::size_t{token / 4} * columns * 2 + token % 4, value, dim,
                           layout.value_columns, remainder);
  __builtin_memcpy(tile + layout.value_scales_at + token * 4, &scale, 4);
}

// A row to change.
struct SpreadRow {
  alignas(64) float values[kMaxHeadDim];

  float* take(const float* row, std::uint32_t dim, std::uint32_t block) {
    __builtin_memcpy(values, row, dim * sizeof(float));
    spread(values, dim, block);
    return values;
  }
};

}  // namespace

void REFRAIN_VARIANT(store_kv_rows)(const KvLayout& layout, std::byte* kv, std::uint32_t layer,
                                    const std::int64_t* slots, std::size_t count, const float* keys,
                                    const float* values, const RemainderRow* remainders) {
  const bool keeps = keeps_remainders(layout);
  SpreadRow row;
  for (std::size_t i = 0; i < count; ++i) {
    const auto tile = static_cast<std::size_t>(slots[i]) / kTileTokens;
    const auto token = static_cast<std::uint32_t>(slots[i] % kTileTokens);
    for (std::size_t head = 0; head < layout.kv_head_count; ++head) {
      std::byte* at = kv + head * layout.head_bytes;
      std::uint16_t* remainder =
          keeps ? remainders[i].of(layer) + head * layout.value_columns : nullptr;
      const std::size_t index = i * layout.kv_head_count + head;
      store_key(layout, at + tile * layout.key_tile_bytes, token,
                row.take(keys + index * layout.key_dim, layout.key_dim, layout.key_block));
      store_value(layout, at + layout.values_at + tile * layout.value_tile_bytes, token,
                  row.take(values + index * layout.value_dim, layout.value_dim, layout.value_block),
                  remainder);
    }
  }
}

}  // namespace refrain::kernels
