// Rounds rows of keys and values to their stored form, compiled once per instruction set; the
// including file defines REFRAIN_STORE. All of them write the same bytes: conversions round to
// nearest even and quotients are exact. Read kv_layout.h first.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu_kernel_variants.h"
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
inline float quantize(const float* row, std::uint32_t dim, Place place) {
  const float scale = scale_of(row, dim, 127.0F);
  for (std::uint32_t d = 0; d < dim; d += kLanes) {
    std::int32_t values[kLanes];
    store_int(values, rounded_quotient(load_part(row, d, dim), scale, 127.0F));
    const std::uint32_t count = dim - d < kLanes ? dim - d : kLanes;
    for (std::uint32_t i = 0; i < count; ++i) place(d + i, values[i]);
  }
  return scale;
}

inline void store_row(const KvLayout& layout, std::byte* key_tile, std::byte* value_tile,
                      std::uint32_t token, const float* key, const float* value) {
  if (layout.format == KvFormat::kF16) {
    store_f16_key(reinterpret_cast<std::uint16_t*>(key_tile) + token, key, layout.key_dim);
    store_f16_value(
        reinterpret_cast<std::uint16_t*>(value_tile) + std::size_t{token} * layout.value_columns,
        value, layout.value_dim);
    return;
  }
  auto* key_bytes = reinterpret_cast<std::uint8_t*>(key_tile);
  const float key_scale = quantize(key, layout.key_dim, [&](std::uint32_t d, std::int32_t rounded) {
    key_bytes[std::size_t{d / 4} * 64 + token * 4 + d % 4] =
        static_cast<std::uint8_t>(rounded + 128);
  });
  auto* value_bytes = reinterpret_cast<std::int8_t*>(value_tile) +
                      std::size_t{token / 4} * layout.value_columns * 4 + token % 4;
  const float value_scale =
      quantize(value, layout.value_dim, [&](std::uint32_t d, std::int32_t rounded) {
        value_bytes[std::size_t{d} * 4] = static_cast<std::int8_t>(rounded);
      });
  __builtin_memcpy(key_tile + layout.key_scales_at + token * 4, &key_scale, 4);
  __builtin_memcpy(value_tile + layout.value_scales_at + token * 4, &value_scale, 4);
}

}  // namespace

void REFRAIN_STORE(const KvLayout& layout, std::byte* layer, const std::int64_t* slots,
                   std::size_t count, const float* keys, const float* values) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto tile = static_cast<std::size_t>(slots[i]) / kTileTokens;
    const auto token = static_cast<std::uint32_t>(slots[i] % kTileTokens);
    for (std::size_t head = 0; head < layout.kv_head_count; ++head) {
      std::byte* at = layer + head * layout.head_bytes;
      const std::size_t row = i * layout.kv_head_count + head;
      store_row(layout, at + tile * layout.key_tile_bytes,
                at + layout.values_at + tile * layout.value_tile_bytes, token,
                keys + row * layout.key_dim, values + row * layout.value_dim);
    }
  }
}

}  // namespace refrain::kernels
