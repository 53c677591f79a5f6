// Copying, moving and reading rows. Any thread.
#include "kernels/kv_rows.h"

#include <algorithm>
#include <bit>
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

// Tokens of a tile and where they go in another.
struct Tokens {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint32_t count = 0;
};

// Copies columns of a tile, each `width` bytes, in `rows` rows.
void copy_columns(std::byte* to, const std::byte* from, std::size_t rows, std::size_t width,
                  std::size_t row_bytes, const Tokens& tokens) {
  to += width * tokens.to;
  from += width * tokens.from;
  for (std::size_t r = 0; r < rows; ++r) {
    std::memcpy(to + r * row_bytes, from + r * row_bytes, width * tokens.count);
  }
}

void copy_key_tokens(const KvLayout& layout, std::byte* to, const std::byte* from,
                     const Tokens& tokens) {
  if (layout.format == KvFormat::kF16) {
    copy_columns(to, from, layout.key_dim, 2, 32, tokens);
  } else {
    copy_columns(to, from, layout.key_groups, 4, 64, tokens);
    copy_columns(to + layout.key_scales_at, from + layout.key_scales_at, 1, 4, 64, tokens);
  }
}

// Bits [from_bit, from_bit + bits) of each word to bits [to_bit, ...); the others stay. Words of
// four tokens, of which the first is the lowest byte on little-endian processors, the only ones
// here.
void copy_bytes_of_words(std::byte* to, const std::byte* from, std::size_t words,
                         std::uint32_t to_bit, std::uint32_t from_bit, std::uint32_t bits) {
  static_assert(std::endian::native == std::endian::little);
  const std::uint32_t mask = (0xFFFFFFFFU >> (32 - bits)) << to_bit;
  for (std::size_t i = 0; i < words; ++i) {
    std::uint32_t word, old;
    std::memcpy(&word, from + i * 4, 4);
    std::memcpy(&old, to + i * 4, 4);
    word = (old & ~mask) | (((word >> from_bit) << to_bit) & mask);
    std::memcpy(to + i * 4, &word, 4);
  }
}

// Bytes [4][value columns][4 tokens]: tokens that keep their place in a group of four go together.
void copy_q8_value_tokens(const KvLayout& layout, std::byte* to, const std::byte* from,
                          const Tokens& tokens) {
  const std::size_t columns = layout.value_columns, group_bytes = columns * 4;
  std::uint32_t done = 0;
  while (done < tokens.count) {
    const std::uint32_t source = tokens.from + done, target = tokens.to + done;
    const std::uint32_t left = tokens.count - done;
    const std::byte* at = from + source / 4 * group_bytes;
    std::byte* there = to + target / 4 * group_bytes;
    if (source % 4 == 0 && target % 4 == 0 && left >= 4) {
      std::memcpy(there, at, group_bytes);
      done += 4;
      continue;
    }
    const std::uint32_t count = std::min({left, 4 - source % 4, 4 - target % 4});
    copy_bytes_of_words(there, at, columns, 8 * (target % 4), 8 * (source % 4), 8 * count);
    done += count;
  }
}

void copy_value_tokens(const KvLayout& layout, std::byte* to, const std::byte* from,
                       const Tokens& tokens) {
  if (layout.format == KvFormat::kF16) {
    const std::size_t row_bytes = std::size_t{layout.value_columns} * 2;
    std::memcpy(to + row_bytes * tokens.to, from + row_bytes * tokens.from,
                row_bytes * tokens.count);
    return;
  }
  copy_q8_value_tokens(layout, to, from, tokens);
  copy_columns(to + layout.value_scales_at, from + layout.value_scales_at, 1, 4, 64, tokens);
}

// Where a head's tiles lie.
struct HeadTiles {
  const KvLayout& layout;
  std::byte* at;

  std::byte* key(std::size_t tile) const { return at + tile * layout.key_tile_bytes; }
  std::byte* value(std::size_t tile) const {
    return at + layout.values_at + tile * layout.value_tile_bytes;
  }
};

// The tokens of one tile that move, to one tile or the seam of two.
void move_tile_tokens(const HeadTiles& tiles, std::size_t from, std::size_t to, std::uint32_t count,
                      const KeyTurn* turn) {
  const std::byte* keys = tiles.key(from / kTileTokens);
  const std::byte* values = tiles.value(from / kTileTokens);
  if (turn != nullptr) {
    turn->kernel(tiles.layout, keys, turn->rotation, turn->turned, turn->scratch);
    keys = turn->turned;
  }
  for (std::uint32_t done = 0; done < count;) {
    Tokens part;
    part.from = static_cast<std::uint32_t>(from % kTileTokens) + done;
    part.to = static_cast<std::uint32_t>((to + done) % kTileTokens);
    part.count = std::min(count - done, kTileTokens - part.to);
    copy_key_tokens(tiles.layout, tiles.key((to + done) / kTileTokens), keys, part);
    copy_value_tokens(tiles.layout, tiles.value((to + done) / kTileTokens), values, part);
    done += part.count;
  }
}

}  // namespace

void copy_kv_rows(const KvLayout& layout, std::byte* layer, std::size_t from_tile,
                  std::size_t to_tile, std::uint32_t count) {
  const std::size_t whole = count / kTileTokens;
  const Tokens rest{0, 0, count % kTileTokens};
  for (std::size_t head = 0; head < layout.kv_head_count; ++head) {
    const HeadTiles tiles{layout, layer + head * layout.head_bytes};
    std::memcpy(tiles.key(to_tile), tiles.key(from_tile), whole * layout.key_tile_bytes);
    std::memcpy(tiles.value(to_tile), tiles.value(from_tile), whole * layout.value_tile_bytes);
    if (rest.count == 0) continue;
    copy_key_tokens(layout, tiles.key(to_tile + whole), tiles.key(from_tile + whole), rest);
    copy_value_tokens(layout, tiles.value(to_tile + whole), tiles.value(from_tile + whole), rest);
  }
}

void move_kv_rows(const KvLayout& layout, std::byte* layer, std::size_t from, std::size_t to,
                  std::size_t count, const KeyTurn* turn) {
  for (std::size_t head = 0; head < layout.kv_head_count; ++head) {
    const HeadTiles tiles{layout, layer + head * layout.head_bytes};
    for (std::size_t done = 0; done < count;) {
      const auto piece = static_cast<std::uint32_t>(
          std::min(count - done, kTileTokens - (from + done) % kTileTokens));
      move_tile_tokens(tiles, from + done, to + done, piece, turn);
      done += piece;
    }
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
