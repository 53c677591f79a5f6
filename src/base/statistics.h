// Figures of a list of measurements. Pure functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace refrain {

// The middle one, or the mean of the middle two. `values` is not empty.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace refrain
