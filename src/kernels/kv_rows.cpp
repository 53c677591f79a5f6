// Copying, moving and reading rows. Any thread.
#include "kernels/kv_rows.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/hadamard.h"

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
  if (layout.key_side == KvSide::kF16) {
    copy_columns(to, from, layout.key_dim, 2, 32, tokens);
  } else {
    copy_columns(to, from, layout.key_scales_at / 64, 4, 64, tokens);
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

// Bytes [4][columns][4 tokens]: tokens that keep their place in a group of four go together.
void copy_byte_value_tokens(const KvLayout& layout, std::byte* to, const std::byte* from,
                            const Tokens& tokens) {
  const std::size_t group_bytes = layout.value_scales_at / 4, columns = group_bytes / 4;
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
  if (layout.value_side == KvSide::kF16) {
    const std::size_t row_bytes = std::size_t{layout.value_columns} * 2;
    std::memcpy(to + row_bytes * tokens.to, from + row_bytes * tokens.from,
                row_bytes * tokens.count);
    return;
  }
  copy_byte_value_tokens(layout, to, from, tokens);
  copy_columns(to + layout.value_scales_at, from + layout.value_scales_at, 1, 4, 64, tokens);
}

float half_at(const std::byte* from, std::size_t index) {
  std::uint16_t half;
  std::memcpy(&half, from + index * 2, sizeof(half));
  return half_value(half);
}

float level_of(std::byte codes, bool upper) {
  const auto both = static_cast<unsigned>(codes);
  return kQ4Levels[upper ? both >> 4U : both & 15U];
}

void load_key(const KvLayout& layout, const std::byte* tile, std::uint32_t token, float* key) {
  for (std::uint32_t d = 0; d < layout.key_dim; ++d) {
    const std::size_t place = std::size_t{token} * 4 + d % 4;
    switch (layout.key_side) {
      case KvSide::kF16:
        key[d] = half_at(tile, std::size_t{d} * kTileTokens + token);
        break;
      case KvSide::kQ8:
        key[d] = static_cast<float>(static_cast<int>(tile[d / 4 * 64 + place]) - 128) *
                 scale_at(tile, layout.key_scales_at, token);
        break;
      case KvSide::kQ4:
        key[d] = level_of(tile[d / 8 * 64 + place], d / 4 % 2 == 1) *
                 scale_at(tile, layout.key_scales_at, token);
        break;
    }
  }
}

void load_value(const KvLayout& layout, const std::byte* tile, std::uint32_t token, float* value) {
  const std::byte* group = tile + layout.value_scales_at / 4 * (token / 4) + token % 4;
  for (std::uint32_t d = 0; d < layout.value_dim; ++d) {
    switch (layout.value_side) {
      case KvSide::kF16:
        value[d] = half_at(tile, std::size_t{token} * layout.value_columns + d);
        break;
      case KvSide::kQ8:
        value[d] = static_cast<float>(static_cast<std::int8_t>(group[std::size_t{d} * 4])) *
                   scale_at(tile, layout.value_scales_at, token);
        break;
      case KvSide::kQ4:
        value[d] = level_of(group[std::size_t{d / 32 * 16 + d % 16} * 4], d / 16 % 2 == 1) *
                   scale_at(tile, layout.value_scales_at, token);
        break;
    }
  }
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

void gather_kv_rows(const KvLayout& layout, const std::byte* layer, std::uint32_t head,
                    std::span<const std::size_t> from, std::byte* keys, std::byte* values) {
  const std::byte* at = layer + head * layout.head_bytes;
  for (std::size_t done = 0; done < from.size();) {
    // Neighbours of one tile go together.
    Tokens part{static_cast<std::uint32_t>(from[done] % kTileTokens),
                static_cast<std::uint32_t>(done), 1};
    while (part.from + part.count < kTileTokens && done + part.count < from.size() &&
           from[done + part.count] == from[done] + part.count)
      ++part.count;
    const std::size_t tile = from[done] / kTileTokens;
    copy_key_tokens(layout, keys, at + tile * layout.key_tile_bytes, part);
    copy_value_tokens(layout, values, at + layout.values_at + tile * layout.value_tile_bytes, part);
    done += part.count;
  }
}

void load_stored_kv_row(const KvLayout& layout, const std::byte* layer, std::uint32_t head,
                        std::size_t slot, float* key, float* value) {
  const std::size_t tile = slot / kTileTokens;
  const auto token = static_cast<std::uint32_t>(slot % kTileTokens);
  const std::byte* at = layer + head * layout.head_bytes;
  if (key != nullptr) load_key(layout, at + tile * layout.key_tile_bytes, token, key);
  if (value == nullptr) return;
  load_value(layout, at + layout.values_at + tile * layout.value_tile_bytes, token, value);
}

void load_kv_row(const KvLayout& layout, const std::byte* layer, std::uint32_t head,
                 std::size_t slot, float* key, float* value) {
  load_stored_kv_row(layout, layer, head, slot, key, value);
  if (key != nullptr) unspread(key, layout.key_dim, layout.key_block);
  if (value != nullptr) unspread(value, layout.value_dim, layout.value_block);
}

}  // namespace refrain::kernels
