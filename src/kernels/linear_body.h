// The product of a packed matrix with rows, written once on simd.h and compiled once per
// instruction set. Read linear.h first.
//
// For each panel, or two beside each other: a chunk of its columns is expanded into scratch (first
// cache level), then all rows pass over it, a few at a time; y holds the sums between chunks.
#pragma once

#include "kernels/linear_expand.h"
#include "kernels/simd_bytes.h"

namespace refrain::kernels {
namespace {

// Rows whose sums are held in registers together, for one panel and for two beside each other (a
// value is then read once for both; 0: too few registers for that).
#if defined(__AVX512F__)
constexpr int kRowBlock = 8;
constexpr int kRowBlockOfPair = 6;
#else
constexpr int kRowBlock = 4;
constexpr int kRowBlockOfPair = 0;
#endif

struct Chunk {
  std::uint32_t first = 0;  // group, or column of a floating matrix
  std::uint32_t count = 0;
};

// The packed chunks that are worked on next, of each panel. While few rows leave little to do, they
// are named to the second cache step by step, so that memory is never idle.
struct NextChunk {
  const std::byte* panels[2];

  // Part `index` of `part_bytes` bytes, of all panels.
  template <int Panels>
  REFRAIN_INLINE void prefetch(std::size_t index, std::size_t part_bytes) const {
    REFRAIN_UNROLL
    for (int p = 0; p < Panels; ++p) {
      const std::byte* part = panels[p] + index * part_bytes;
      for (std::size_t i = 0; i < part_bytes; i += 64) __builtin_prefetch(part + i, 0, 2);
    }
  }
};
constexpr int kFewRows = 2;

// One row's share of a chunk.
struct RowOfChunk {
  const std::int8_t* values;
  const float* scales;
  const float* scaled_sums;
  const std::int32_t* sums;
  const Excess* excess;
  const Excess* excess_end;
};

REFRAIN_INLINE RowOfChunk row_of_chunk(const QuantizedRows& x, std::size_t row,
                                       const Chunk& chunk) {
  const std::size_t groups = x.columns / kGroup;
  const std::size_t value = row * x.columns + std::size_t{kGroup} * chunk.first;
  const std::size_t group = row * groups + chunk.first;
  const std::uint32_t index = chunk.first / kChunkGroups;
  const Excess* excesses = x.excesses + row * (x.columns / kQuad);
  const std::uint32_t* ends =
      x.excess_ends + row * ((groups + kChunkGroups - 1) / kChunkGroups) + index;
  return {x.values + value,
          x.scales + group,
          x.scaled_sums + group,
          x.sums + 2 * group,
          excesses + (index == 0 ? 0 : ends[-1]),
          excesses + ends[0]};
}

// Integer sums of `Quads` quads of one group for all rows and panels, less the type's offset. An
// activation is spread over a register once for all panels.
template <WeightType Type, int Rows, int Panels, int Quads>
REFRAIN_INLINE void dot_rows(const std::uint8_t* const* weights, const std::int8_t* const* values,
                             const std::int32_t* const* sums, std::uint32_t at,
                             std::uint32_t sum_at, IntVec (*dot)[Rows]) {
  constexpr QuantTraits kTraits = traits_of(Type);
  ByteSum<kTraits.largest> sum[Panels][Rows];
  REFRAIN_UNROLL
  for (int r = 0; r < Rows; ++r) {
    std::int32_t start = 0;
    if constexpr (kTraits.offset != 0) {
      start = sums[r][sum_at];
      if constexpr (Quads == 8) start += sums[r][sum_at + 1];
      start *= -kTraits.offset;
    }
    REFRAIN_UNROLL
    for (int p = 0; p < Panels; ++p) sum[p][r].begin(start);
  }
  REFRAIN_UNROLL
  for (int q = 0; q < Quads; ++q) {
    IntVec w[Panels];
    REFRAIN_UNROLL
    for (int p = 0; p < Panels; ++p) w[p] = load_int(weights[p] + 64 * q);
    REFRAIN_UNROLL
    for (int r = 0; r < Rows; ++r) {
      std::int32_t four;
      __builtin_memcpy(&four, values[r] + at + 4 * q, 4);
      const IntVec x = splat_int(four);
      REFRAIN_UNROLL
      for (int p = 0; p < Panels; ++p) sum[p][r].add(q, w[p], x);
    }
  }
  REFRAIN_UNROLL
  for (int r = 0; r < Rows; ++r) {
    REFRAIN_UNROLL
    for (int p = 0; p < Panels; ++p) dot[p][r] = sum[p][r].total();
  }
}

template <WeightType Type, int Rows, int Panels>
REFRAIN_INLINE void multiply_group(const RowOfChunk* rows, const PanelOfChunk* s, std::uint32_t g,
                                   Vec (*total)[Rows]) {
  constexpr QuantTraits kTraits = traits_of(Type);
  constexpr int kHalves = kTraits.halves ? 2 : 1;
  constexpr int kQuads = 8 / kHalves;
  const std::int8_t* values[Rows];
  const std::int32_t* sums[Rows];
  REFRAIN_UNROLL
  for (int r = 0; r < Rows; ++r) {
    values[r] = rows[r].values;
    sums[r] = rows[r].sums;
  }
  for (std::uint32_t half = 0; half < kHalves; ++half) {
    const std::uint8_t* w[Panels];
    REFRAIN_UNROLL
    for (int p = 0; p < Panels; ++p) w[p] = s[p].weights + std::size_t{512} * g + 256 * half;
    IntVec dot[Panels][Rows];
    dot_rows<Type, Rows, Panels, kQuads>(w, values, sums, kGroup * g + 16 * half, 2 * g + half,
                                         dot);
    Vec scale[Panels];
    REFRAIN_UNROLL
    for (int p = 0; p < Panels; ++p) {
      scale[p] = load(s[p].scales + std::size_t{16} * (kHalves * g + half));
    }
    REFRAIN_UNROLL
    for (int r = 0; r < Rows; ++r) {
      const Vec step = splat(rows[r].scales[g]);
      REFRAIN_UNROLL
      for (int p = 0; p < Panels; ++p) {
        total[p][r] = multiply_add(to_float(dot[p][r]) * step, scale[p], total[p][r]);
      }
    }
  }
  if constexpr (kTraits.has_minimum) {
    Vec minimum[Panels];
    REFRAIN_UNROLL
    for (int p = 0; p < Panels; ++p) minimum[p] = load(s[p].minima + std::size_t{16} * g);
    REFRAIN_UNROLL
    for (int r = 0; r < Rows; ++r) {
      const Vec sum = splat(rows[r].scaled_sums[g]);
      REFRAIN_UNROLL
      for (int p = 0; p < Panels; ++p) total[p][r] = multiply_add(minimum[p], sum, total[p][r]);
    }
  }
}

// Adds one row's excesses, ascending.
template <WeightType Type, int Rows, int Panels>
REFRAIN_INLINE void add_excesses(const RowOfChunk& row, const PanelOfChunk* s, Vec (*total)[Rows],
                                 int r) {
  constexpr QuantTraits kTraits = traits_of(Type);
  constexpr std::uint32_t kQuadsOfScale = (kTraits.halves ? kGroup / 2 : kGroup) / kQuad;
  for (const Excess* excess = row.excess; excess != row.excess_end; ++excess) {
    std::int32_t four;
    __builtin_memcpy(&four, excess->values, sizeof(four));
    const IntVec x = splat_int(four);
    const IntVec start = splat_int(-kTraits.offset * excess->sum);
    const Vec step = splat(excess->scale);
    const std::size_t quad = excess->quad;
    REFRAIN_UNROLL
    for (int p = 0; p < Panels; ++p) {
      const IntVec w = load_int(s[p].weights + 64 * quad);
      const Vec dot = to_float(add_byte_products<!kTraits.full_byte()>(start, w, x));
      const Vec scale = load(s[p].scales + kPanelRows * (quad / kQuadsOfScale));
      total[p][r] = multiply_add(dot * step, scale, total[p][r]);
    }
  }
}

template <WeightType Type, int Rows, int Panels>
REFRAIN_INLINE void multiply_rows(const QuantizedRows& x, std::uint32_t row, const Chunk& chunk,
                                  const PanelOfChunk* s, const NextChunk& next, float* y,
                                  std::size_t stride) {
  RowOfChunk rows[Rows];
  Vec total[Panels][Rows];
  REFRAIN_UNROLL
  for (int r = 0; r < Rows; ++r) {
    rows[r] = row_of_chunk(x, row + static_cast<std::size_t>(r), chunk);
    REFRAIN_UNROLL
    for (int p = 0; p < Panels; ++p) {
      total[p][r] = chunk.first == 0 ? splat(0.0F) : load(y + r * stride + p * kPanelRows);
    }
  }
  for (std::uint32_t g = 0; g < chunk.count; ++g) {
    if constexpr (Rows <= kFewRows) {
      constexpr QuantTraits kTraits = traits_of(Type);
      next.prefetch<Panels>(g, superblock_bytes(kTraits) * kGroup / kTraits.superblock);
    }
    multiply_group<Type, Rows, Panels>(rows, s, g, total);
  }
  REFRAIN_UNROLL
  for (int r = 0; r < Rows; ++r) {
    add_excesses<Type, Rows, Panels>(rows[r], s, total, r);
    REFRAIN_UNROLL
    for (int p = 0; p < Panels; ++p) store(y + r * stride + p * kPanelRows, total[p][r]);
  }
}

template <WeightType Type, int Rows, int Panels>
REFRAIN_INLINE void multiply_floating_rows(const LinearInput& x, std::uint32_t row,
                                           const Chunk& chunk, const PanelOfChunk* s,
                                           const NextChunk& next, float* y, std::size_t stride) {
  const float* rows[Rows];
  const float* weights[Panels];
  Vec total[Panels][Rows];
  REFRAIN_UNROLL
  for (int p = 0; p < Panels; ++p) weights[p] = reinterpret_cast<const float*>(s[p].weights);
  REFRAIN_UNROLL
  for (int r = 0; r < Rows; ++r) {
    rows[r] = x.rows + (row + static_cast<std::size_t>(r)) * x.stride + chunk.first;
    REFRAIN_UNROLL
    for (int p = 0; p < Panels; ++p) {
      total[p][r] = chunk.first == 0 ? splat(0.0F) : load(y + r * stride + p * kPanelRows);
    }
  }
  for (std::uint32_t k = 0; k < chunk.count; ++k) {
    if constexpr (Rows <= kFewRows) {
      if (Type == WeightType::kF32) next.prefetch<Panels>(k, 64);
      if (Type != WeightType::kF32 && k % 2 == 0) next.prefetch<Panels>(k / 2, 64);
    }
    Vec w[Panels];
    REFRAIN_UNROLL
    for (int p = 0; p < Panels; ++p) w[p] = load(weights[p] + std::size_t{kPanelRows} * k);
    REFRAIN_UNROLL
    for (int r = 0; r < Rows; ++r) {
      const Vec value = splat(rows[r][k]);
      REFRAIN_UNROLL
      for (int p = 0; p < Panels; ++p) total[p][r] = multiply_add(w[p], value, total[p][r]);
    }
  }
  REFRAIN_UNROLL
  for (int r = 0; r < Rows; ++r) {
    REFRAIN_UNROLL
    for (int p = 0; p < Panels; ++p) store(y + r * stride + p * kPanelRows, total[p][r]);
  }
}

template <WeightType Type, int Rows, int Panels>
REFRAIN_INLINE void multiply_block(const LinearInput& x, std::uint32_t row, const Chunk& chunk,
                                   const PanelOfChunk* s, const NextChunk& next, float* y,
                                   std::size_t stride) {
  if constexpr (is_quantized(Type)) {
    multiply_rows<Type, Rows, Panels>(x.quantized, row, chunk, s, next, y, stride);
  } else {
    multiply_floating_rows<Type, Rows, Panels>(x, row, chunk, s, next, y, stride);
  }
}

// Expands a chunk of a panel that starts at `from`; returns where the next chunk starts.
template <WeightType Type>
REFRAIN_INLINE const std::byte* expand(const std::byte* from, std::uint32_t count,
                                       PanelOfChunk& to) {
  if constexpr (is_quantized(Type)) {
    constexpr QuantTraits kTraits = traits_of(Type);
    expand_chunk<Type>(reinterpret_cast<const std::uint8_t*>(from), count, to);
    return from + superblock_bytes(kTraits) * (count * kGroup / kTraits.superblock);
  } else {
    expand_columns<Type>(from, count, reinterpret_cast<float*>(to.weights));
    return from + std::size_t{count} * kPanelRows * (Type == WeightType::kF32 ? 4 : 2);
  }
}

// Rows [first, last) with `Panels` panels beside each other; row `first` of y is at `y`.
template <WeightType Type, int Panels>
void multiply_panel(const PackedMatrix& matrix, std::uint32_t panel, const LinearInput& x,
                    std::uint32_t first, std::uint32_t last, float* y, std::size_t stride,
                    LinearScratch& scratch) {
  constexpr std::uint32_t kStep = is_quantized(Type) ? kChunkGroups : kChunkColumns;
  constexpr int kRows = Panels == 1 ? kRowBlock : kRowBlockOfPair;
  const std::uint32_t end = is_quantized(Type) ? matrix.columns / kGroup : matrix.columns;
  PanelOfChunk* s = scratch.panels;
  const std::byte* from[Panels];
  REFRAIN_UNROLL
  for (int p = 0; p < Panels; ++p) from[p] = matrix.panel(panel + static_cast<std::uint32_t>(p));
  for (std::uint32_t at = 0; at < end; at += kStep) {
    const Chunk chunk{at, end - at < kStep ? end - at : kStep};
    REFRAIN_UNROLL
    for (int p = 0; p < Panels; ++p) from[p] = expand<Type>(from[p], chunk.count, s[p]);
    NextChunk next;
    REFRAIN_UNROLL
    for (int p = 0; p < Panels; ++p) {
      next.panels[p] = from[p] + (at + kStep < end ? 0 : (Panels - 1) * matrix.panel_bytes());
    }
    std::uint32_t row = first;
    float* to = y;
    for (; row + std::uint32_t{kRows} <= last; row += kRows, to += kRows * stride) {
      multiply_block<Type, kRows, Panels>(x, row, chunk, s, next, to, stride);
    }
    for (; row + 2 <= last; row += 2, to += 2 * stride) {
      multiply_block<Type, 2, Panels>(x, row, chunk, s, next, to, stride);
    }
    if (row < last) multiply_block<Type, 1, Panels>(x, row, chunk, s, next, to, stride);
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
    multiply_panel<Type, 1>(matrix, panel, x, row, end, s.tile, kPanelRows, s);
    for (std::uint32_t r = row; r < end; ++r) {
      __builtin_memcpy(y + r * stride, s.tile + std::size_t{kPanelRows} * (r - row), 4 * valid);
    }
  }
}

template <WeightType Type>
void multiply_panels(const PackedMatrix& matrix, const LinearInput& x, const LinearRange& range,
                     float* y, std::size_t stride, LinearScratch& s) {
  const std::uint32_t full_panels = matrix.rows / kPanelRows;
  const std::uint32_t end = range.last_panel < full_panels ? range.last_panel : full_panels;
  float* first_row = y + range.first_row * stride;
  std::uint32_t panel = range.first_panel;
  if constexpr (kRowBlockOfPair > 0) {
    const bool many = range.last_row - range.first_row >= std::uint32_t{kRowBlockOfPair};
    for (; many && panel + 2 <= end; panel += 2) {
      multiply_panel<Type, 2>(matrix, panel, x, range.first_row, range.last_row,
                              first_row + std::size_t{kPanelRows} * panel, stride, s);
    }
  }
  for (; panel < end; ++panel) {
    multiply_panel<Type, 1>(matrix, panel, x, range.first_row, range.last_row,
                            first_row + std::size_t{kPanelRows} * panel, stride, s);
  }
  if (panel < range.last_panel) {
    multiply_last_panel<Type>(matrix, panel, x, range, y + std::size_t{kPanelRows} * panel, stride,
                              s);
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
