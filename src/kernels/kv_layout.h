// How keys and values of one layer lie in memory, for every format; the one place that says so.
// Plain data, any thread. A slot is one token's place; 16 slots make a tile, and a block of the
// arena is block_size / 16 tiles.
//
//   layer:  | head 0: key tiles | head 0: value tiles | head 1: key tiles | head 1: value tiles |..
//   tiles:  in the order of the slots, all of one size
//
//   f16 keys     [key_dim][16 tokens] float16          one load brings a dimension of 16 keys
//   f16 values   [16 tokens][value columns] float16    one load brings 16 dimensions of a value
//   q8 keys      [key groups][16 tokens][4 dims] bytes, value + 128; then [16 tokens] float scales
//   q8 values    [4][value columns][4 tokens] int8; then [16 tokens] float scales
//
// q8 has one scale for each token, head and side: the largest magnitude of the row / 127; the row
// is int8 * scale. A row that is not finite has a scale of NaN. Value columns are value_dim rounded
// up to 16, key groups are key_dim / 4 rounded up; what padding holds reaches no result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace refrain::kernels {

enum class KvFormat { kF16, kQ8 };

inline constexpr std::uint32_t kTileTokens = 16;

// The formats there are; f16, the reference, comes first.
struct KvFormatInfo {
  KvFormat format;
  const char* name;  // as in --kv-format
};
std::span<const KvFormatInfo> kv_formats();
const char* kv_format_name(KvFormat format);
// None for a name that is not one of them.
std::optional<KvFormat> kv_format_named(std::string_view name);

struct KvLayout {
  KvFormat format = KvFormat::kF16;
  std::uint32_t kv_head_count = 0;
  std::uint32_t key_dim = 0;        // per head
  std::uint32_t value_dim = 0;      // per head
  std::uint32_t key_groups = 0;     // q8: of 4 dims
  std::uint32_t value_columns = 0;  // value_dim with its padding
  std::size_t tile_count = 0;       // of one head and side; slots / 16

  // Bytes.
  std::size_t key_tile_bytes = 0;
  std::size_t value_tile_bytes = 0;
  std::size_t key_scales_at = 0;    // q8: within a tile
  std::size_t value_scales_at = 0;  // q8: within a tile
  std::size_t values_at = 0;        // within a head: where the value tiles begin
  std::size_t head_bytes = 0;
  std::size_t layer_bytes = 0;
};

KvLayout make_kv_layout(KvFormat format, std::uint32_t kv_head_count, std::uint32_t key_dim,
                        std::uint32_t value_dim, std::size_t tile_count);

// Of one layer; a whole number for every shape.
std::size_t kv_bytes_per_token(const KvLayout& layout);

}  // namespace refrain::kernels
