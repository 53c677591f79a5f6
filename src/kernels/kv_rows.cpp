// Copying and reading rows. Any thread.
#include "kernels/kv_rows.h"

#include <cstring>

namespace refrain::kernels {
namespace {

float half_value(std::uint16_t half) {
  const std::uint32_t magnitude = static_cast<std::uint32_t>(half & 0x7FFF) << 13;
  float value;
  std::memcpy(&value, &magnitude, sizeof(value));
  value *= 0x1p112F;  // corrects the exponent's bias, exact for subnormals too
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  if (magnitude >= 0x7C00U << 13) bits = 0x7F800000 | (magnitude & 0x7FFFFF);
  bits |= static_cast<std::uint32_t>(half & 0x8000) << 16;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

float scale_at(const std::byte* tile, std::size_t scales_at, std::uint32_t token) {
  float scale;
  std::memcpy(&scale, tile + scales_at + token * sizeof(float), sizeof(scale));
  return scale;
}

// Copies `count` of a tile's 16 columns, each `width` bytes, in `rows` rows.
void copy_columns(std::byte* to, const std::byte* from, std::size_t rows, std::size_t width,
                  std::size_t row_bytes, std::uint32_t count) {
  for (std::size_t r = 0; r < rows; ++r) {
    std::memcpy(to + r * row_bytes, from + r * row_bytes, width * count);
  }
}

void copy_key_tokens(const KvLayout& layout, std::byte* to, const std::byte* from,
                     std::uint32_t count) {
  if (layout.format == KvFormat::kF16) {
    copy_columns(to, from, layout.key_dim, 2, 32, count);
  } else {
    copy_columns(to, from, layout.key_groups, 4, 64, count);
    copy_columns(to + layout.key_scales_at, from + layout.key_scales_at, 1, 4, 64, count);
  }
}

void copy_value_tokens(const KvLayout& layout, std::byte* to, const std::byte* from,
                       std::uint32_t count) {
  if (layout.format == KvFormat::kF16) {
    std::memcpy(to, from, std::size_t{layout.value_columns} * 2 * count);
    return;
  }
  const std::size_t group_bytes = std::size_t{layout.value_columns} * 4;
  const std::uint32_t groups = count / 4;
  std::memcpy(to, from, group_bytes * groups);
  copy_columns(to + groups * group_bytes, from + groups * group_bytes, layout.value_columns, 1, 4,
               count % 4);
  copy_columns(to + layout.value_scales_at, from + layout.value_scales_at, 1, 4, 64, count);
}

}  // namespace

void copy_kv_rows(const KvLayout& layout, std::byte* layer, std::size_t from_tile,
                  std::size_t to_tile, std::uint32_t count) {
  const std::size_t whole = count / kTileTokens;
  const std::uint32_t rest = count % kTileTokens;
  for (std::size_t head = 0; head < layout.kv_head_count; ++head) {
    std::byte* keys = layer + head * layout.head_bytes;
    std::byte* values = keys + layout.values_at;
    const auto key_tile = [&](std::size_t tile) { return keys + tile * layout.key_tile_bytes; };
    const auto value_tile = [&](std::size_t tile) {
      return values + tile * layout.value_tile_bytes;
    };
    std::memcpy(key_tile(to_tile), key_tile(from_tile), whole * layout.key_tile_bytes);
    std::memcpy(value_tile(to_tile), value_tile(from_tile), whole * layout.value_tile_bytes);
    if (rest == 0) continue;
    copy_key_tokens(layout, key_tile(to_tile + whole), key_tile(from_tile + whole), rest);
    copy_value_tokens(layout, value_tile(to_tile + whole), value_tile(from_tile + whole), rest);
  }
}

void load_kv_row(const KvLayout& layout, const std::byte* layer, std::uint32_t head,
                 std::size_t slot, float* key, float* value) {
  const std::size_t tile = slot / kTileTokens;
  const auto token = static_cast<std::uint32_t>(slot % kTileTokens);
  const std::byte* at = layer + head * layout.head_bytes;
  const std::byte* key_tile = at + tile * layout.key_tile_bytes;
  const std::byte* value_tile = at + layout.values_at + tile * layout.value_tile_bytes;
  const auto half_at = [](const std::byte* from, std::size_t index) {
    std::uint16_t half;
    std::memcpy(&half, from + index * 2, sizeof(half));
    return half_value(half);
  };
  for (std::uint32_t d = 0; key != nullptr && d < layout.key_dim; ++d) {
    key[d] =
        layout.format == KvFormat::kF16
            ? half_at(key_tile, std::size_t{d} * kTileTokens + token)
            : static_cast<float>(static_cast<int>(key_tile[d / 4 * 64 + token * 4 + d % 4]) - 128) *
                  scale_at(key_tile, layout.key_scales_at, token);
  }
  for (std::uint32_t d = 0; value != nullptr && d < layout.value_dim; ++d) {
    const std::size_t byte = std::size_t{token / 4} * layout.value_columns * 4 + d * 4 + token % 4;
    value[d] = layout.format == KvFormat::kF16
                   ? half_at(value_tile, std::size_t{token} * layout.value_columns + d)
                   : static_cast<float>(static_cast<std::int8_t>(value_tile[byte])) *
                         scale_at(value_tile, layout.value_scales_at, token);
  }
}

}  // namespace refrain::kernels
