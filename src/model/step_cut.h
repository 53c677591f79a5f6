// How the steps of a batch are cut into tasks for a WorkerTeam; the executor and the measurements
// of its kernels cut alike. How a step is cut changes no result. Pure functions.
#pragma once

#include <algorithm>
#include <cstdint>

namespace refrain::model {

inline std::uint32_t pieces_of(std::uint32_t whole, std::uint32_t piece) {
  return (whole + piece - 1) / piece;
}

// Rows per task of a step of row operations on rows of `dim` values.
inline std::uint32_t row_piece(std::uint32_t rows, std::uint32_t dim, std::uint32_t threads) {
  constexpr std::uint64_t kSmallStepValues = 8192;  // fewer are not worth waking others for
  // So that a thread that comes late or is slow does not hold up the step.
  constexpr std::uint32_t kPiecesPerThread = 4;
  constexpr std::uint32_t kPieceMax = 16;  // rows stay in the cache between operations
  if (std::uint64_t{rows} * dim < kSmallStepValues) return rows;
  return std::min(pieces_of(rows, kPiecesPerThread * threads), kPieceMax);
}

// Panels per task of a step of products: an even number, since two beside each other go faster.
inline std::uint32_t panel_piece(std::uint32_t panels, std::uint32_t threads) {
  constexpr std::uint32_t kPiecesPerThread = 6;
  return threads == 1 ? panels : 2 * std::max(1U, panels / (2 * kPiecesPerThread * threads));
}

}  // namespace refrain::model
