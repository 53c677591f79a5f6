// The table of formats and the sizes of a layer's parts. Plain functions, any thread.
#include "kernels/kv_layout.h"

#include <array>

#include "base/check.h"
#include "kernels/hadamard.h"

namespace refrain::kernels {
namespace {

constexpr auto kFormats = std::to_array<KvFormatInfo>({
    {KvFormat::kF16, "f16", KvSide::kF16, KvSide::kF16},
    {KvFormat::kQ8, "q8", KvSide::kQ8, KvSide::kQ8},
    {KvFormat::kQ8Q4, "q8/q4", KvSide::kQ8, KvSide::kQ4},
    {KvFormat::kQ4, "q4", KvSide::kQ4, KvSide::kQ4},
});
static_assert(kFormats.size() == kKvFormatCount);

constexpr std::size_t kScaleBytes = kTileTokens * sizeof(float);

// Bytes of a tile before its scales, `dims` with padding.
std::size_t tile_bytes(KvSide side, std::size_t dims) {
  const std::size_t count = dims * kTileTokens;
  if (side == KvSide::kF16) return count * 2;
  return side == KvSide::kQ8 ? count : count / 2;
}

std::uint32_t rounded_up(std::uint32_t value, std::uint32_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

void lay_keys(KvLayout& layout) {
  const KvSide side = layout.key_side;
  layout.key_groups = rounded_up(layout.key_dim, side == KvSide::kQ4 ? 8 : 4) / 4;
  if (side == KvSide::kF16) {
    layout.key_tile_bytes = tile_bytes(side, layout.key_dim);
    return;
  }
  layout.key_block = hadamard_block(layout.key_dim);
  layout.key_scales_at = tile_bytes(side, std::size_t{layout.key_groups} * 4);
  layout.key_tile_bytes = layout.key_scales_at + kScaleBytes;
}

void lay_values(KvLayout& layout) {
  const KvSide side = layout.value_side;
  layout.value_columns = rounded_up(layout.value_dim, side == KvSide::kQ4 ? 32 : 16);
  layout.value_scales_at = tile_bytes(side, layout.value_columns);
  layout.value_tile_bytes = layout.value_scales_at + (side == KvSide::kF16 ? 0 : kScaleBytes);
  if (side == KvSide::kQ4) layout.value_block = hadamard_block(layout.value_dim);
}

}  // namespace

std::span<const KvFormatInfo> kv_formats() {
  return kFormats;
}

const char* kv_format_name(KvFormat format) {
  return kFormats.at(static_cast<std::size_t>(format)).name;
}

std::optional<KvFormat> kv_format_named(std::string_view name) {
  for (const KvFormatInfo& info : kFormats) {
    if (info.name == name) return info.format;
  }
  return std::nullopt;
}

KvLayout make_kv_layout(KvFormat format, std::uint32_t kv_head_count, std::uint32_t key_dim,
                        std::uint32_t value_dim, std::size_t tile_count) {
  CHECK(key_dim <= kMaxHeadDim && value_dim <= kMaxHeadDim, "heads larger than kernels can take");
  const KvFormatInfo& info = kFormats.at(static_cast<std::size_t>(format));
  KvLayout layout;
  layout.format = format;
  layout.key_side = info.key;
  layout.value_side = info.value;
  layout.kv_head_count = kv_head_count;
  layout.key_dim = key_dim;
  layout.value_dim = value_dim;
  layout.tile_count = tile_count;
  lay_keys(layout);
  lay_values(layout);
  layout.values_at = layout.key_tile_bytes * tile_count;
  layout.head_bytes = layout.values_at + layout.value_tile_bytes * tile_count;
  layout.layer_bytes = layout.head_bytes * kv_head_count;
  return layout;
}

std::size_t kv_bytes_per_token(const KvLayout& layout) {
  return (layout.key_tile_bytes + layout.value_tile_bytes) / kTileTokens * layout.kv_head_count;
}

double kv_bits_per_value(const KvLayout& layout) {
  const std::size_t values =
      std::size_t{layout.kv_head_count} * (layout.key_dim + layout.value_dim);
  return 8.0 * static_cast<double>(kv_bytes_per_token(layout)) / static_cast<double>(values);
}

}  // namespace refrain::kernels
