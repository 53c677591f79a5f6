// Spreading of a row before it is rounded: each block of its values is multiplied by a Hadamard
// matrix (entries +1 and -1, Sylvester's construction), so that a large value becomes a little in
// every value and the block can share one scale. The matrix is orthogonal up to a factor: spreading
// twice multiplies by the block's size, a power of two, so that it is undone exactly but for the
// rounding of the sums, and
//
//   dot(spread(a), spread(b)) = block * dot(a, b)
//
// (QuaRot, Ashkboos et al. 2024, does this to keys and values.) The order of the sums is fixed:
// every instruction set gives the same bits. Plain functions; for files compiled once per
// instruction set too, so all is in an anonymous namespace.
#pragma once

#include <cstddef>
#include <cstdint>

namespace refrain::kernels {
namespace {

// The largest power of two that divides `dim`.
inline std::uint32_t hadamard_block(std::uint32_t dim) {
  return dim & (~dim + 1);
}

// Spreads `rows` interleaved rows in place: x [dim][rows], in blocks of `block` dims.
inline void spread(float* x, std::uint32_t dim, std::uint32_t block, std::uint32_t rows = 1) {
  const std::size_t count = std::size_t{dim} * rows, width = std::size_t{block} * rows;
  for (std::size_t half = rows; half < width; half *= 2) {
    for (std::size_t begin = 0; begin < count; begin += 2 * half) {
      float* a = x + begin;
      float* b = a + half;
      for (std::size_t i = 0; i < half; ++i) {
        const float first = a[i], second = b[i];
        a[i] = first + second;
        b[i] = first - second;
      }
    }
  }
}

// Undoes spread().
inline void unspread(float* x, std::uint32_t dim, std::uint32_t block, std::uint32_t rows = 1) {
  if (block == 1) return;
  spread(x, dim, block, rows);
  const float back = 1.0F / static_cast<float>(block);
  for (std::size_t i = 0; i < std::size_t{dim} * rows; ++i) x[i] *= back;
}

}  // namespace
}  // namespace refrain::kernels
