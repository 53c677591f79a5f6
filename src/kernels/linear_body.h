// The product of a packed matrix with rows, written once on simd16.h and compiled once per
// instruction set. Read linear.h first.
//
// For each panel: a chunk of its columns is expanded into scratch (first cache level), then all
// rows pass over it, a few at a time; y holds the sums between chunks.
#pragma once

#include "kernels/linear_expand.h"

namespace refrain::kernels {
namespace {

#if defined(__AVX512F__)
constexpr std::uint32_t kRowBlock = 8;  // rows whose sums are held in registers together
#else
constexpr std::uint32_t kRowBlock = 4;
#endif

struct Chunk {
  std::uint32_t first = 0;  // group, or column of a floating matrix
  std::uint32_t count = 0;
};

// One row's share of a chunk.
struct RowOfChunk {
  const std::int8_t* values;
  const std::int8_t* residuals;
  const float* scales;
  const float* scaled_sums;
  const std::int32_t* sums;
  const std::int32_t* residual_sums;
};

// A chunk is one word of marks.
static_assert(kChunkGroups == kGroupsPerWord);

REFRAIN_INLINE RowOfChunk row_of_chunk(const QuantizedRows& x, std::size_t row,
                                       const Chunk& chunk) {
  const std::size_t groups = x.columns / kGroup;
  const std::size_t value = row * x.columns + std::size_t{kGroup} * chunk.first;
  const std::size_t group = row * groups + chunk.first;
  return {x.values + value,      x.residuals + value, x.scales + group,
          x.scaled_sums + group, x.sums + 2 * group,  x.residual_sums + 2 * group};
}

// Integer sums of `Quads` quads of one group for all rows, less the type's offset.
template <WeightType Type, int Rows, int Quads>
REFRAIN_INLINE void dot_rows(const std::uint8_t* weights, const std::int8_t* const* values,
                             const std::int32_t* const* sums, std::uint32_t at,
                             std::uint32_t sum_at, I16* dot) {
  constexpr QuantTraits kTraits = traits_of(Type);
  for (int r = 0; r < Rows; ++r) {
    std::int32_t start = 0;
    if constexpr (kTraits.offset != 0) {
      start = sums[r][sum_at];
      if constexpr (Quads == 8) start += sums[r][sum_at + 1];
      start *= -kTraits.offset;
    }
    dot[r] = splat_int16(start);
  }
  for (int q = 0; q < Quads; ++q) {
    const B64 w = load64(weights + 64 * q);
    for (int r = 0; r < Rows; ++r)
      dot[r] = dot4<kTraits.full_byte>(dot[r], w, values[r] + at + 4 * q);
  }
}

template <WeightType Type, int Rows>
REFRAIN_INLINE void multiply_group(const RowOfChunk* rows, const LinearScratch& s, std::uint32_t g,
                                   F16* total) {
  constexpr QuantTraits kTraits = traits_of(Type);
  constexpr int kParts = kTraits.halves ? 2 : 1;
  constexpr int kQuads = 8 / kParts;
  const std::int8_t* values[Rows];
  const std::int32_t* sums[Rows];
  for (int r = 0; r < Rows; ++r) {
    values[r] = rows[r].values;
    sums[r] = rows[r].sums;
  }
  for (std::uint32_t part = 0; part < kParts; ++part) {
    const std::uint8_t* w = s.weights + std::size_t{512} * g + 256 * part;
    I16 dot[Rows];
    dot_rows<Type, Rows, kQuads>(w, values, sums, kGroup * g + 16 * part, 2 * g + part, dot);
    const F16 scale = load16(s.scales + std::size_t{16} * (kParts * g + part));
    for (int r = 0; r < Rows; ++r) {
      const F16 product = multiply16(to_float16(dot[r]), splat16(rows[r].scales[g]));
      total[r] = multiply_add16(product, scale, total[r]);
    }
  }
  if constexpr (kTraits.has_minimum) {
    const F16 minimum = load16(s.minima + std::size_t{16} * g);
    for (int r = 0; r < Rows; ++r) {
      total[r] = multiply_add16(minimum, splat16(rows[r].scaled_sums[g]), total[r]);
    }
  }
}

// Adds the second plane of one row's marked groups, ascending.
template <WeightType Type>
REFRAIN_INLINE F16 add_residuals(const RowOfChunk& row, std::uint32_t marks, const LinearScratch& s,
                                 F16 total) {
  constexpr QuantTraits kTraits = traits_of(Type);
  constexpr int kParts = kTraits.halves ? 2 : 1;
  constexpr int kQuads = 8 / kParts;
  for (; marks != 0; marks &= marks - 1) {
    const auto g = static_cast<std::uint32_t>(__builtin_ctz(marks));
    const F16 step = splat16(row.scales[g] * (1.0F / 256));
    for (std::uint32_t part = 0; part < kParts; ++part) {
      const std::uint8_t* w = s.weights + std::size_t{512} * g + 256 * part;
      I16 dot;
      dot_rows<Type, 1, kQuads>(w, &row.residuals, &row.residual_sums, kGroup * g + 16 * part,
                                2 * g + part, &dot);
      const F16 scale = load16(s.scales + std::size_t{16} * (kParts * g + part));
      total = multiply_add16(multiply16(to_float16(dot), step), scale, total);
    }
  }
  return total;
}

template <WeightType Type, int Rows>
REFRAIN_INLINE void multiply_rows(const QuantizedRows& x, std::uint32_t row, const Chunk& chunk,
                                  const LinearScratch& s, float* y, std::size_t stride) {
  RowOfChunk rows[Rows];
  F16 total[Rows];
  const std::size_t words = (x.columns / kGroup + kGroupsPerWord - 1) / kGroupsPerWord;
  const std::uint32_t* marks = x.marks + row * words + chunk.first / kGroupsPerWord;
  for (int r = 0; r < Rows; ++r) {
    rows[r] = row_of_chunk(x, row + static_cast<std::size_t>(r), chunk);
    total[r] = chunk.first == 0 ? zero16() : load16(y + r * stride);
  }
  for (std::uint32_t g = 0; g < chunk.count; ++g) multiply_group<Type, Rows>(rows, s, g, total);
  for (int r = 0; r < Rows; ++r) {
    store16(y + r * stride, add_residuals<Type>(rows[r], marks[r * words], s, total[r]));
  }
}

template <int Rows>
REFRAIN_INLINE void multiply_floating_rows(const LinearInput& x, std::uint32_t row,
                                           const Chunk& chunk, const float* weights, float* y,
                                           std::size_t stride) {
  const float* rows[Rows];
  F16 total[Rows];
  for (int r = 0; r < Rows; ++r) {
    rows[r] = x.rows + (row + static_cast<std::size_t>(r)) * x.stride + chunk.first;
    total[r] = chunk.first == 0 ? zero16() : load16(y + r * stride);
  }
  for (std::uint32_t k = 0; k < chunk.count; ++k, weights += kPanelRows) {
    const F16 w = load16(weights);
    for (int r = 0; r < Rows; ++r) total[r] = multiply_add16(w, splat16(rows[r][k]), total[r]);
  }
  for (int r = 0; r < Rows; ++r) store16(y + r * stride, total[r]);
}

template <WeightType Type, int Rows>
REFRAIN_INLINE void multiply_block(const LinearInput& x, std::uint32_t row, const Chunk& chunk,
                                   const LinearScratch& s, float* y, std::size_t stride) {
  if constexpr (is_quantized(Type)) {
    multiply_rows<Type, Rows>(x.quantized, row, chunk, s, y, stride);
  } else {
    multiply_floating_rows<Rows>(x, row, chunk, reinterpret_cast<const float*>(s.weights), y,
                                 stride);
  }
}

// Rows [first, last) with one panel; row `first` of y is at `y`.
template <WeightType Type>
void multiply_panel(const PackedMatrix& matrix, std::uint32_t panel, const LinearInput& x,
                    std::uint32_t first, std::uint32_t last, float* y, std::size_t stride,
                    LinearScratch& s) {
  constexpr std::uint32_t kStep = is_quantized(Type) ? kChunkGroups : kChunkColumns;
  const std::uint32_t end = is_quantized(Type) ? matrix.columns / kGroup : matrix.columns;
  const std::byte* from = matrix.panel(panel);
  for (std::uint32_t at = 0; at < end; at += kStep) {
    const Chunk chunk{at, end - at < kStep ? end - at : kStep};
    if constexpr (is_quantized(Type)) {
      constexpr QuantTraits kTraits = traits_of(Type);
      expand_chunk<Type>(reinterpret_cast<const std::uint8_t*>(from), chunk.count, s);
      from += superblock_bytes(kTraits) * (chunk.count * kGroup / kTraits.superblock);
    } else {
      expand_columns<Type>(from, chunk.count, reinterpret_cast<float*>(s.weights));
      from += std::size_t{chunk.count} * kPanelRows * (Type == WeightType::kF32 ? 4 : 2);
    }
    std::uint32_t row = first;
    float* to = y;
    for (; row + kRowBlock <= last; row += kRowBlock, to += kRowBlock * stride) {
      multiply_block<Type, kRowBlock>(x, row, chunk, s, to, stride);
    }
    for (; row + 2 <= last; row += 2, to += 2 * stride) {
      multiply_block<Type, 2>(x, row, chunk, s, to, stride);
    }
    if (row < last) multiply_block<Type, 1>(x, row, chunk, s, to, stride);
  }
}

// The last panel of a matrix whose rows do not fill it: through a tile, so that nothing beyond the
// matrix's own values is written.
template <WeightType Type>
void multiply_last_panel(const PackedMatrix& matrix, std::uint32_t panel, const LinearInput& x,
                         const LinearRange& range, float* y, std::size_t stride, LinearScratch& s) {
  const std::uint32_t valid = matrix.rows - panel * kPanelRows;
  for (std::uint32_t row = range.first_row; row < range.last_row; row += kTileRows) {
    const std::uint32_t end = range.last_row - row < kTileRows ? range.last_row : row + kTileRows;
    multiply_panel<Type>(matrix, panel, x, row, end, s.tile, kPanelRows, s);
    for (std::uint32_t r = row; r < end; ++r) {
      __builtin_memcpy(y + r * stride, s.tile + std::size_t{kPanelRows} * (r - row), 4 * valid);
    }
  }
}

template <WeightType Type>
void multiply_panels(const PackedMatrix& matrix, const LinearInput& x, const LinearRange& range,
                     float* y, std::size_t stride, LinearScratch& s) {
  for (std::uint32_t panel = range.first_panel; panel < range.last_panel; ++panel) {
    float* to = y + std::size_t{kPanelRows} * panel;
    if ((panel + 1) * kPanelRows > matrix.rows) {
      multiply_last_panel<Type>(matrix, panel, x, range, to, stride, s);
    } else {
      multiply_panel<Type>(matrix, panel, x, range.first_row, range.last_row,
                           to + range.first_row * stride, stride, s);
    }
  }
}

void linear(const PackedMatrix& m, const LinearInput& x, const LinearRange& range, float* y,
            std::size_t stride, std::byte* scratch) {
  LinearScratch& s = *reinterpret_cast<LinearScratch*>(scratch);
  switch (m.type) {
    case WeightType::kF32:
      return multiply_panels<WeightType::kF32>(m, x, range, y, stride, s);
    case WeightType::kF16:
      return multiply_panels<WeightType::kF16>(m, x, range, y, stride, s);
    case WeightType::kBF16:
      return multiply_panels<WeightType::kBF16>(m, x, range, y, stride, s);
    case WeightType::kQ4_0:
      return multiply_panels<WeightType::kQ4_0>(m, x, range, y, stride, s);
    case WeightType::kQ4_1:
      return multiply_panels<WeightType::kQ4_1>(m, x, range, y, stride, s);
    case WeightType::kQ5_0:
      return multiply_panels<WeightType::kQ5_0>(m, x, range, y, stride, s);
    case WeightType::kQ5_1:
      return multiply_panels<WeightType::kQ5_1>(m, x, range, y, stride, s);
    case WeightType::kQ8_0:
      return multiply_panels<WeightType::kQ8_0>(m, x, range, y, stride, s);
    case WeightType::kQ4_K:
      return multiply_panels<WeightType::kQ4_K>(m, x, range, y, stride, s);
    case WeightType::kQ5_K:
      return multiply_panels<WeightType::kQ5_K>(m, x, range, y, stride, s);
    case WeightType::kQ6_K:
      return multiply_panels<WeightType::kQ6_K>(m, x, range, y, stride, s);
  }
}

}  // namespace
}  // namespace refrain::kernels
