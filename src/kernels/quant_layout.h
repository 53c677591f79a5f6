// The packed form of each quantized type; kernels/ only. One panel = for each superblock along the
// columns: the quants of its groups, then the scales of its 16 rows.
//
//   type   weights   per superblock, bytes
//   Q4_0        32   256 nibbles                             16 half scales
//   Q4_1        32   256 nibbles                             16 half scales, 16 half minima
//   Q5_0, Q5_1  32   256 nibbles, 64 fifth bits              as Q4_0, Q4_1
//   Q8_0        32   512 bytes (value + 128)                 16 half scales
//   Q4_K       256   8 x 256 nibbles                         12-bit pairs, 16 half d, 16 half dmin
//   Q5_K       256   8 x (256 nibbles, 64 fifth bits)        as Q4_K
//   Q6_K       256   8 x (256 nibbles, 128 upper pairs)      16 x 16 signed bytes, 16 half d
//
// Nibble vector v (0..3) of a group: low nibbles quad v, high nibbles quad v + 4. Fifth bits: bit q
// of byte 4 i + b belongs to quad q. Upper pairs: vector 0 holds quads 0..3, vector 1 quads 4..7,
// bits 2 (q % 4). Pairs of 6 bits (scale s, minimum m) of group g: 16 bytes (s & 15) | (m & 15) <<
// 4 for each group, then for each two groups 16 bytes with (s >> 4) | (m >> 4) << 2, odd group in
// the upper nibble.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/packed_matrix.h"

namespace refrain::kernels {

// How the integers and scales of a type combine.
struct QuantTraits {
  std::uint32_t superblock = 32;  // weights
  std::uint32_t group_bytes = 0;  // quants of 32 weights x 16 rows
  std::uint32_t scale_bytes = 0;  // of a superblock x 16 rows
  std::int32_t offset = 0;        // taken from each integer weight
  bool has_minimum = false;
  bool halves = false;     // one scale per 16 weights
  std::int32_t largest = 15;  // integer weight, before the offset is taken

  constexpr bool full_byte() const { return largest > 127; }
};

constexpr QuantTraits traits_of(WeightType type) {
  switch (type) {
    case WeightType::kF32:
    case WeightType::kF16:
    case WeightType::kBF16:
      break;
    case WeightType::kQ4_0:
      return {32, 256, 32, 8, false, false, 15};
    case WeightType::kQ4_1:
      return {32, 256, 64, 0, true, false, 15};
    case WeightType::kQ5_0:
      return {32, 320, 32, 16, false, false, 31};
    case WeightType::kQ5_1:
      return {32, 320, 64, 0, true, false, 31};
    case WeightType::kQ8_0:
      return {32, 512, 32, 128, false, false, 255};
    case WeightType::kQ4_K:
      return {256, 256, 256, 0, true, false, 15};
    case WeightType::kQ5_K:
      return {256, 320, 256, 0, true, false, 31};
    case WeightType::kQ6_K:
      return {256, 384, 288, 32, false, true, 63};
  }
  return {};
}

constexpr std::size_t superblock_bytes(const QuantTraits& t) {
  return std::size_t{t.superblock / kGroup} * t.group_bytes + t.scale_bytes;
}

}  // namespace refrain::kernels
