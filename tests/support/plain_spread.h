// Spreading of a row (kernels/hadamard.h) by the definition of its matrix, in double precision: the
// sign of an entry is the parity of the bits that row and column share. For tests.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace refrain::kernels {

template <class Number>
std::vector<double> plain_spread(const std::vector<Number>& row, std::uint32_t block) {
  std::vector<double> result(row.size(), 0.0);
  for (std::uint32_t d = 0; d < row.size(); ++d) {
    for (std::uint32_t j = d / block * block; j < (d / block + 1) * block; ++j) {
      const bool negative = std::popcount((d % block) & (j % block)) % 2 == 1;
      result[d] += negative ? -double{row[j]} : double{row[j]};
    }
  }
  return result;
}

inline double largest_magnitude(const std::vector<double>& row) {
  double most = 0.0;
  for (const double x : row) most = std::max(most, std::fabs(x));
  return most;
}

}  // namespace refrain::kernels
