// PackedMatrix: a view of one weight matrix in packed form, and the functions that make that form
// from the rows of a GGUF file. The weights keep their bits; no more bytes per weight than in the
// file (rows are padded to whole panels). The memory is the caller's. Any thread.
//
//   panel p       matrix rows 16 p .. 16 p + 15, all columns; rows beyond the last are zero
//   quantized     along the columns in groups of 32 weights (quant_layout.h); 4 consecutive weights
//                 of each of the 16 rows lie beside each other in one 64-byte vector:
//                 quad q of group g, byte 4 i + b = weight (row i, column 32 g + 4 q + b)
//   floating      column k: the 16 rows' values beside each other, in the file's type
#pragma once

#include <cstddef>
#include <cstdint>

namespace refrain::kernels {

inline constexpr std::uint32_t kPanelRows = 16;
inline constexpr std::uint32_t kGroup = 32;  // weights and activations per scale

enum class WeightType { kF32, kF16, kBF16, kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0, kQ4_K, kQ5_K, kQ6_K };

constexpr bool is_quantized(WeightType type) {
  return type != WeightType::kF32 && type != WeightType::kF16 && type != WeightType::kBF16;
}

// Weights per block in the file: 1, 32 or 256; columns are a multiple of it.
std::uint32_t block_weights(WeightType type);
// Bytes per block in the file.
std::uint32_t block_bytes(WeightType type);

struct PackedMatrix {
  WeightType type = WeightType::kF32;
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  const std::byte* data = nullptr;  // panels, ascending

  std::uint32_t panel_count() const { return (rows + kPanelRows - 1) / kPanelRows; }
  std::size_t panel_bytes() const {
    return std::size_t{columns} / block_weights(type) * block_bytes(type) * kPanelRows;
  }
  std::size_t bytes() const { return panel_bytes() * panel_count(); }
  const std::byte* panel(std::uint32_t index) const { return data + panel_bytes() * index; }
};

// Writes panels [first, last) of the matrix, whose `data` is not read, to `packed`
// (matrix.bytes() bytes, the whole matrix). `source`: the rows as in the file.
void pack_panels(const PackedMatrix& matrix, const std::byte* source, std::uint32_t first,
                 std::uint32_t last, std::byte* packed);

}  // namespace refrain::kernels
