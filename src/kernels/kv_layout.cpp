// The sizes of a layer's parts. Plain functions, any thread.
#include "kernels/kv_layout.h"

#include <array>

namespace refrain::kernels {
namespace {

constexpr auto kFormats =
    std::to_array<KvFormatInfo>({{KvFormat::kF16, "f16"}, {KvFormat::kQ8, "q8"}});

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
  KvLayout layout;
  layout.format = format;
  layout.kv_head_count = kv_head_count;
  layout.key_dim = key_dim;
  layout.value_dim = value_dim;
  layout.key_groups = (key_dim + 3) / 4;
  layout.value_columns = (value_dim + 15) / 16 * 16;
  layout.tile_count = tile_count;
  constexpr std::size_t kScaleBytes = kTileTokens * sizeof(float);
  if (format == KvFormat::kQ8) {
    layout.key_scales_at = std::size_t{layout.key_groups} * kTileTokens * 4;
    layout.value_scales_at = std::size_t{layout.value_columns} * kTileTokens;
    layout.key_tile_bytes = layout.key_scales_at + kScaleBytes;
    layout.value_tile_bytes = layout.value_scales_at + kScaleBytes;
  } else {
    layout.key_tile_bytes = std::size_t{key_dim} * kTileTokens * sizeof(std::uint16_t);
    layout.value_tile_bytes =
        std::size_t{layout.value_columns} * kTileTokens * sizeof(std::uint16_t);
  }
  layout.values_at = layout.key_tile_bytes * tile_count;
  layout.head_bytes = layout.values_at + layout.value_tile_bytes * tile_count;
  layout.layer_bytes = layout.head_bytes * kv_head_count;
  return layout;
}

std::size_t kv_bytes_per_token(const KvLayout& layout) {
  return (layout.key_tile_bytes + layout.value_tile_bytes) / kTileTokens * layout.kv_head_count;
}

}  // namespace refrain::kernels
