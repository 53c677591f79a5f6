// Products of packed matrices with FP32 rows. Plain functions on memory the caller owns; any
// thread, each with a scratch of its own.
//
// Quantized matrices multiply rows that were quantized to 8 bits in groups of 32 (quantize_row):
//
//   y[row][n] = sum over groups g, ascending, of
//        scale_w[n][g] * scale_x[row][g] * dot(w, x)
//      + minimum_w[n][g] * sum of the group's values, excesses included     (types with a minimum)
//   and after each 32 groups, for the row's excesses in them, ascending,
//        scale_w[n][g] * 255 scale_x[row][g] * dot(w, e)                    (4 columns)
//
// x are a group's values in whole steps of scale_x = max |value| / 127. One large value would make
// the steps coarse for its whole group. So values that stand out of their row do not count for the
// maximum: they are up to 255 * 127 steps large, of which x keeps the remainder of the division by
// 255, and the quotient, with those of its quad, is an excess. A large value costs the product of
// one quad, not of a group. Integer sums are exact and the FP32 steps are the same, in the same
// order, for one row and for five hundred and on every instruction set: equal inputs give equal
// bits everywhere.
//
// Floating matrices multiply the rows as they are, one fused step for each column, ascending.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/packed_matrix.h"

namespace refrain::kernels {

inline constexpr std::uint32_t kQuad = 4;          // values that are multiplied together
inline constexpr std::uint32_t kChunkGroups = 32;  // groups whose excesses are added together
inline constexpr std::int32_t kExcessSteps = 255;  // steps of the group in one of an excess

// What a quad with values that stand out has beyond `values`.
struct Excess {
  float scale = 0.0F;  // kExcessSteps times the group's
  std::int8_t values[kQuad] = {};
  std::uint16_t quad = 0;  // of the chunk
  std::int16_t sum = 0;    // of the values
};

// Rows as quantize_row() leaves them. columns: padded with zeros to a multiple of 32.
struct QuantizedRows {
  std::uint32_t columns = 0;
  std::int8_t* values = nullptr;         // [rows][columns]
  float* scales = nullptr;               // [rows][groups]
  float* scaled_sums = nullptr;          // [rows][groups]       the group's sum, with its excesses
  std::int32_t* sums = nullptr;          // [rows][2 groups]     sums of 16 of `values`
  Excess* excesses = nullptr;            // [rows][quads]        as many as the row has, ascending
  std::uint32_t* excess_ends = nullptr;  // [rows][chunks]       of excesses up to the chunk's last

  std::uint32_t groups() const { return columns / kGroup; }
  std::uint32_t quads() const { return columns / kQuad; }
  std::uint32_t chunks() const { return (groups() + kChunkGroups - 1) / kChunkGroups; }

  // Lays the arrays of `rows` rows of `dim` values out in memory that is aligned to 64 bytes.
  static std::size_t bytes(std::uint32_t rows, std::uint32_t dim);
  static QuantizedRows at(std::byte* memory, std::uint32_t rows, std::uint32_t dim);
};

// What a product reads: FP32 rows for a floating matrix, quantized rows for a quantized one.
struct LinearInput {
  const float* rows = nullptr;
  std::size_t stride = 0;  // floats from row to row
  QuantizedRows quantized;
};

// The part of a product that one call computes.
struct LinearRange {
  std::uint32_t first_row = 0, last_row = 0;
  std::uint32_t first_panel = 0, last_panel = 0;
};

// Bytes of scratch, aligned to 64, that a product needs on each thread.
std::size_t linear_scratch_bytes();

}  // namespace refrain::kernels
