// Operations on single FP32 rows between the products: norm, rotation, gate, quantization. Plain
// functions on memory the caller owns; any thread. Each output depends only on its own row, with
// the same bits on every instruction set.
#pragma once

#include <cstdint>

namespace refrain::kernels {

enum class Gate { kSilu, kGelu };  // GELU in its tanh form (Hendrycks and Gimpel 2016)

// The angles of one row: `dimensions` values of each head turn, the rest stay.
struct Rotation {
  const float* cosine = nullptr;  // [dimensions / 2]
  const float* sine = nullptr;    // [dimensions / 2]
  std::uint32_t dimensions = 0;
  bool halves = false;  // pairs (i, i + dimensions / 2); otherwise (2 i, 2 i + 1)
};

}  // namespace refrain::kernels
