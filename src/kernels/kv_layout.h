// How keys and values of one layer lie in memory, for every format; the one place that says so.
// Plain data, any thread. A slot is one token's place; 16 slots make a tile, and a block of the
// arena is block_size / 16 tiles. Keys and values are two sides, each stored in its own way.
//
//   layer:  | head 0: key tiles | head 0: value tiles | head 1: key tiles | head 1: value tiles |..
//   tiles:  in the order of the slots, all of one size
//
//   f16 keys     [key_dim][16 tokens] float16          one load brings a dimension of 16 keys
//   f16 values   [16 tokens][value columns] float16    one load brings 16 dimensions of a value
//   q8 keys      [groups][16 tokens][4 dims] bytes, value + 128; then [16 tokens] float scales
//   q8 values    [4][columns][4 tokens] int8; then [16 tokens] float scales
//   q4 keys      [groups / 2][16 tokens][4 dims] of two codes: below the dim of the even group,
//                above that of the odd one; then [16 tokens] float scales
//   q4 values    [4][columns / 2][4 tokens] of two codes: below column 32 i + j, above column
//                32 i + 16 + j; then [16 tokens] float scales
//
// q8 and q4 have one scale for each token, head and side. q8: the largest magnitude of the row /
// 127; the row is int8 * scale. q4: the row is kQ4Levels[code] * scale, with the scale that fits
// the row best. A row that is not finite has a scale of NaN. q8 keys and both sides of q4 are
// spread before they are rounded (hadamard.h): key_block and value_block are the sizes of the
// blocks, 1 where nothing is spread. Groups are of 4 dims, rounded up, for q4 to an even number;
// value columns are value_dim rounded up to 16, for q4 to 32; what padding holds reaches no result.
//
// A row sees values of 4 bits rounded, but for those of its own tile, which it sees as they were:
// what rounding took from them, their remainders, is kept beside the tiles as long as the sequence
// may go on in them (model/open_tile.h). So what a row computes depends on its tile's beginning,
// and stored rows can be gone on from at multiples of kTileTokens only.
//
//   keys      0 ............ 31 | 32 ...... 37
//   row 37    sees as stored    | as stored + remainder
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace refrain::kernels {

enum class KvSide { kF16, kQ8, kQ4 };
enum class KvFormat { kF16, kQ8, kQ8Q4, kQ4 };
inline constexpr std::size_t kKvFormatCount = 4;

inline constexpr std::uint32_t kTileTokens = 16;
inline constexpr std::uint32_t kMaxHeadDim = 1024;  // of keys and of values

// The 16 values a 4-bit code stands for, in units of the scale: those with the least squared error
// for a normal distribution (Max 1960, Lloyd 1982), as whole numbers of 7 bits.
inline constexpr std::int8_t kQ4Levels[16] = {-63, -48, -37, -29, -22, -15, -9, -3,
                                              3,   9,   15,  22,  29,  37,  48, 63};

// The formats there are, those of more bytes first. Keys never have fewer bits than values.
struct KvFormatInfo {
  KvFormat format;
  const char* name;  // as in --kv-format
  KvSide key;
  KvSide value;
};
std::span<const KvFormatInfo> kv_formats();  // [kKvFormatCount], in the order of KvFormat
const char* kv_format_name(KvFormat format);
std::optional<KvFormat> kv_format_named(std::string_view name);

struct KvLayout {
  KvFormat format = KvFormat::kF16;
  KvSide key_side = KvSide::kF16;
  KvSide value_side = KvSide::kF16;
  std::uint32_t kv_head_count = 0;
  std::uint32_t key_dim = 0;        // per head
  std::uint32_t value_dim = 0;      // per head
  std::uint32_t key_block = 1;      // dims spread together
  std::uint32_t value_block = 1;    // dims spread together
  std::uint32_t key_groups = 0;     // of 4 dims, with padding
  std::uint32_t value_columns = 0;  // value_dim with its padding
  std::size_t tile_count = 0;       // of one head and side; slots / 16

  // Bytes.
  std::size_t key_tile_bytes = 0;
  std::size_t value_tile_bytes = 0;
  std::size_t key_scales_at = 0;    // within a tile; not f16
  std::size_t value_scales_at = 0;  // within a tile; not f16
  std::size_t values_at = 0;        // within a head: where the value tiles begin
  std::size_t head_bytes = 0;
  std::size_t layer_bytes = 0;
};

// Both dims are at most kMaxHeadDim.
KvLayout make_kv_layout(KvFormat format, std::uint32_t kv_head_count, std::uint32_t key_dim,
                        std::uint32_t value_dim, std::size_t tile_count);

inline bool keeps_remainders(const KvLayout& layout) {
  return layout.value_side == KvSide::kQ4;
}

// Stored rows can be gone on from at multiples of this, so that what follows has the same bits.
inline std::uint32_t reuse_step_tokens(const KvLayout& layout) {
  return keeps_remainders(layout) ? kTileTokens : 1;
}

// Of one layer; a whole number for every shape.
std::size_t kv_bytes_per_token(const KvLayout& layout);

// Bits that a number of a key or value takes on average, with scales and padding.
double kv_bits_per_value(const KvLayout& layout);

}  // namespace refrain::kernels
