// Products of packed matrices with FP32 rows. Plain functions on memory the caller owns; any
// thread, each with a scratch of its own.
//
// Quantized matrices multiply rows that were quantized to 8 bits in groups of 32 (quantize_row):
//
//   y[row][n] = sum over groups g, ascending, of
//        scale_w[n][g] * scale_x[row][g] * dot(w, x)
//      + minimum_w[n][g] * sum of the group's values, both planes     (types with a minimum)
//   and after each 32 groups, for those of them that are marked in the row, ascending,
//        scale_w[n][g] * scale_x[row][g] / 256 * dot(w, r)
//
// x are a group's values in steps of scale_x = max |value| / 127. One large value makes the steps
// coarse for its whole group, and such groups are the same few for most rows; so a group that
// stands out in its row is marked and what rounding left over is kept as a second plane r, in steps
// of scale_x / 256. Integer sums are exact and the FP32 steps are the same, in the same order, for
// one row and for five hundred and on every instruction set: equal inputs give equal bits
// everywhere.
//
// Floating matrices multiply the rows as they are, one fused step for each column, ascending.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/packed_matrix.h"

namespace refrain::kernels {

inline constexpr std::uint32_t kGroupsPerWord = 32;  // groups in one word of marks

// Rows as quantize_row() leaves them. columns: padded with zeros to a multiple of 32.
struct QuantizedRows {
  std::uint32_t columns = 0;
  std::int8_t* values = nullptr;          // [rows][columns]
  std::int8_t* residuals = nullptr;       // [rows][columns]      of marked groups only
  float* scales = nullptr;                // [rows][groups]
  float* scaled_sums = nullptr;           // [rows][groups]       the group's sum, both planes
  std::int32_t* sums = nullptr;           // [rows][2 groups]     sums of 16 values
  std::int32_t* residual_sums = nullptr;  // [rows][2 groups]
  std::uint32_t* marks = nullptr;         // [rows][words]        bit g % 32: group g is marked

  std::uint32_t groups() const { return columns / kGroup; }
  std::uint32_t words() const { return (groups() + kGroupsPerWord - 1) / kGroupsPerWord; }

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
