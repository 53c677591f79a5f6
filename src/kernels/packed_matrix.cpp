// Packs matrices; quant_layout.h draws the quantized form. Any thread.
#include "kernels/packed_matrix.h"

#include <cstring>

#include "kernels/quant_layout.h"

namespace refrain::kernels {
namespace {

// One row's share of a superblock in the file, taken apart: integers as stored (offset not applied)
// and the raw scales.
struct SourceBlock {
  std::uint8_t weights[256];
  std::uint16_t d = 0, m = 0;           // half floats
  std::uint8_t scale6[8], minimum6[8];  // Q4_K, Q5_K
  std::int8_t scale8[16];               // Q6_K
};

std::uint16_t read_half(const std::uint8_t* p) {
  std::uint16_t value;
  std::memcpy(&value, p, 2);
  return value;
}

void read_nibbles32(const std::uint8_t* p, std::uint8_t* out) {
  for (int i = 0; i < 16; ++i) {
    out[i] = p[i] & 15U;
    out[i + 16] = p[i] >> 4U;
  }
}

void read_fifth_bits32(const std::uint8_t* p, std::uint8_t* out) {
  std::uint32_t bits;
  std::memcpy(&bits, p, 4);
  for (int i = 0; i < 32; ++i) out[i] |= ((bits >> i) & 1U) << 4U;
}

// The 12 bytes of 6-bit scales and minima of Q4_K and Q5_K.
void read_scales6(const std::uint8_t* p, SourceBlock& block) {
  for (int j = 0; j < 4; ++j) {
    block.scale6[j] = p[j] & 63U;
    block.minimum6[j] = p[j + 4] & 63U;
    block.scale6[j + 4] = static_cast<std::uint8_t>((p[j + 8] & 15U) | ((p[j] >> 6U) << 4U));
    block.minimum6[j + 4] = static_cast<std::uint8_t>((p[j + 8] >> 4U) | ((p[j + 4] >> 6U) << 4U));
  }
}

void read_q4k(const std::uint8_t* p, SourceBlock& block, const std::uint8_t* fifth) {
  for (int part = 0; part < 4; ++part) {
    for (int i = 0; i < 32; ++i) {
      const std::uint8_t byte = p[32 * part + i];
      std::uint8_t* at = block.weights + 64 * part + i;
      at[0] = byte & 15U;
      at[32] = byte >> 4U;
      if (fifth != nullptr) {
        at[0] |= ((fifth[i] >> (2 * part)) & 1U) << 4U;
        at[32] |= ((fifth[i] >> (2 * part + 1)) & 1U) << 4U;
      }
    }
  }
}

void read_q6k(const std::uint8_t* low, const std::uint8_t* high, std::uint8_t* out) {
  for (int part = 0; part < 2; ++part, low += 64, high += 32, out += 128) {
    for (int i = 0; i < 32; ++i) {
      out[i] = (low[i] & 15U) | ((high[i] & 3U) << 4U);
      out[i + 32] = (low[i + 32] & 15U) | (((high[i] >> 2U) & 3U) << 4U);
      out[i + 64] = (low[i] >> 4U) | (((high[i] >> 4U) & 3U) << 4U);
      out[i + 96] = (low[i + 32] >> 4U) | (((high[i] >> 6U) & 3U) << 4U);
    }
  }
}

void read_block(WeightType type, const std::uint8_t* p, SourceBlock& block) {
  switch (type) {
    case WeightType::kF32:
    case WeightType::kF16:
    case WeightType::kBF16:
      return;
    case WeightType::kQ4_0:
      block.d = read_half(p);
      read_nibbles32(p + 2, block.weights);
      return;
    case WeightType::kQ4_1:
      block.d = read_half(p);
      block.m = read_half(p + 2);
      read_nibbles32(p + 4, block.weights);
      return;
    case WeightType::kQ5_0:
      block.d = read_half(p);
      read_nibbles32(p + 6, block.weights);
      read_fifth_bits32(p + 2, block.weights);
      return;
    case WeightType::kQ5_1:
      block.d = read_half(p);
      block.m = read_half(p + 2);
      read_nibbles32(p + 8, block.weights);
      read_fifth_bits32(p + 4, block.weights);
      return;
    case WeightType::kQ8_0:
      block.d = read_half(p);
      for (int i = 0; i < 32; ++i) block.weights[i] = static_cast<std::uint8_t>(p[2 + i] ^ 0x80U);
      return;
    case WeightType::kQ4_K:
    case WeightType::kQ5_K: {
      const bool five = type == WeightType::kQ5_K;
      block.d = read_half(p);
      block.m = read_half(p + 2);
      read_scales6(p + 4, block);
      read_q4k(p + (five ? 48 : 16), block, five ? p + 16 : nullptr);
      return;
    }
    case WeightType::kQ6_K:
      read_q6k(p, p + 128, block.weights);
      std::memcpy(block.scale8, p + 192, 16);
      block.d = read_half(p + 208);
      return;
  }
}

// Writes row `i` of a superblock into its panel.
void write_groups(const QuantTraits& t, const SourceBlock& block, std::uint32_t i,
                  std::uint8_t* to) {
  for (std::uint32_t g = 0; g < t.superblock / kGroup; ++g, to += t.group_bytes) {
    const std::uint8_t* weights = block.weights + kGroup * g;
    for (std::uint32_t k = 0; k < kGroup; ++k) {
      const std::uint32_t quad = k / 4, byte = 4 * i + k % 4;
      const std::uint8_t w = weights[k];
      if (t.full_byte()) {
        to[64 * quad + byte] = w;
        continue;
      }
      to[64 * (quad % 4) + byte] |= static_cast<std::uint8_t>((w & 15U) << (quad < 4 ? 0U : 4U));
      if (t.group_bytes == 320) {
        to[256 + byte] |= static_cast<std::uint8_t>((w >> 4U) << quad);
      } else if (t.group_bytes == 384) {
        to[256 + 64 * (quad / 4) + byte] |=
            static_cast<std::uint8_t>((w >> 4U) << (2 * (quad % 4)));
      }
    }
  }
}

void write_scales(WeightType type, const SourceBlock& block, std::uint32_t i, std::uint8_t* to) {
  const auto put_half = [&](std::uint32_t at, std::uint16_t half) {
    std::memcpy(to + at + 2 * i, &half, 2);
  };
  if (type == WeightType::kQ4_K || type == WeightType::kQ5_K) {
    for (std::uint32_t g = 0; g < 8; ++g) {
      const unsigned s = block.scale6[g], m = block.minimum6[g];
      to[16 * g + i] = static_cast<std::uint8_t>((s & 15U) | ((m & 15U) << 4U));
      to[128 + 16 * (g / 2) + i] |=
          static_cast<std::uint8_t>(((s >> 4U) | ((m >> 4U) << 2U)) << (g % 2 == 0 ? 0U : 4U));
    }
    put_half(192, block.d);
    put_half(224, block.m);
  } else if (type == WeightType::kQ6_K) {
    for (std::uint32_t s = 0; s < 16; ++s)
      to[16 * s + i] = static_cast<std::uint8_t>(block.scale8[s]);
    put_half(256, block.d);
  } else {
    put_half(0, block.d);
    if (traits_of(type).has_minimum) put_half(32, block.m);
  }
}

void pack_quantized(const PackedMatrix& matrix, const std::uint8_t* source, std::uint32_t panel,
                    std::uint8_t* to) {
  const QuantTraits t = traits_of(matrix.type);
  const std::size_t blocks = matrix.columns / t.superblock;
  const std::size_t row_bytes = blocks * block_bytes(matrix.type);
  SourceBlock block{};
  for (std::uint32_t i = 0; i < kPanelRows; ++i) {
    const std::uint32_t row = panel * kPanelRows + i;
    if (row >= matrix.rows) return;
    const std::uint8_t* from = source + row_bytes * row;
    std::uint8_t* at = to;
    for (std::size_t b = 0; b < blocks;
         ++b, from += block_bytes(matrix.type), at += superblock_bytes(t)) {
      read_block(matrix.type, from, block);
      write_groups(t, block, i, at);
      write_scales(matrix.type, block, i, at + std::size_t{t.superblock / kGroup} * t.group_bytes);
    }
  }
}

void pack_floating(const PackedMatrix& matrix, const std::uint8_t* source, std::uint32_t panel,
                   std::uint8_t* to) {
  const std::size_t size = block_bytes(matrix.type), row_bytes = size * matrix.columns;
  for (std::uint32_t i = 0; i < kPanelRows; ++i) {
    const std::uint32_t row = panel * kPanelRows + i;
    if (row >= matrix.rows) return;
    for (std::size_t k = 0; k < matrix.columns; ++k) {
      std::memcpy(to + (k * kPanelRows + i) * size, source + row_bytes * row + k * size, size);
    }
  }
}

}  // namespace

std::uint32_t block_weights(WeightType type) {
  return is_quantized(type) ? traits_of(type).superblock : 1;
}

std::uint32_t block_bytes(WeightType type) {
  if (!is_quantized(type)) return type == WeightType::kF32 ? 4 : 2;
  return static_cast<std::uint32_t>(superblock_bytes(traits_of(type)) / kPanelRows);
}

void pack_panels(const PackedMatrix& matrix, const std::byte* source, std::uint32_t first,
                 std::uint32_t last, std::byte* packed) {
  const auto* from = reinterpret_cast<const std::uint8_t*>(source);
  for (std::uint32_t panel = first; panel < last; ++panel) {
    auto* to = reinterpret_cast<std::uint8_t*>(packed) + matrix.panel_bytes() * panel;
    std::memset(to, 0, matrix.panel_bytes());
    if (is_quantized(matrix.type)) {
      pack_quantized(matrix, from, panel, to);
    } else {
      pack_floating(matrix, from, panel, to);
    }
  }
}

}  // namespace refrain::kernels
