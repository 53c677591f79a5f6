// What a product keeps in the first cache level while it works on a panel; kernels/ only.
#pragma once

#include <cstdint>

#include "kernels/linear.h"

namespace refrain::kernels {

// Columns of a floating matrix expanded at a time: 16 KiB.
inline constexpr std::uint32_t kChunkColumns = 256;
// Rows of a panel that is not full go through a tile of this many.
inline constexpr std::uint32_t kTileRows = 64;

// A chunk of one panel, expanded: 1,024 weights of 16 rows = 16 KiB.
struct PanelOfChunk {
  alignas(64) std::uint8_t weights[kChunkGroups * kGroup * kPanelRows];  // or floats
  alignas(64) float scales[kChunkGroups * 2 * kPanelRows];
  alignas(64) float minima[kChunkGroups * kPanelRows];
};

struct LinearScratch {
  PanelOfChunk panels[2];
  alignas(64) float tile[kTileRows * kPanelRows];
};

}  // namespace refrain::kernels
