// Measures the attention kernels alone: decode of one row and prefill of a chunk at a depth, for a
// shape and a format. For `refrain bench kernels`. The caller brings threads and clock. Shapes as
// in paged_attention.h; the K/V of several layers are read in turn, so that they come from memory
// and not from a cache.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "kernels/cpu_kernels.h"
#include "kernels/paged_attention.h"

namespace refrain::kernels {

struct KernelMeasurement {
  std::string name;          // "attention decode f16 9/3x64 at 4096"
  double seconds = 0.0;      // of one layer, the median of several rounds
  double gb_per_s = 0.0;     // stored bytes of the keys and values seen, once
  double gflop_per_s = 0.0;  // 2 x products of scores and of values, masked ones not counted
};

struct AttentionBench {
  std::string label;  // "9/3x64"
  AttentionShape shape;
  KvFormat format = KvFormat::kF16;
  std::uint32_t depth = 4096;   // tokens before the first row
  std::uint32_t row_count = 1;  // 1: decode
  std::uint32_t layer_count = 30;
  std::uint32_t block_size = 16;
  std::uint32_t rounds = 5;
  std::optional<InstructionSet> set = {};  // not set: the best this processor has
};

// Runs function(thread) for thread 0 to thread_count - 1 at once and returns when all have.
using RunThreads = std::function<void(const std::function<void(std::uint32_t thread)>& function)>;

KernelMeasurement measure_attention(const AttentionBench& bench, std::uint32_t thread_count,
                                    const RunThreads& run_threads, const Clock& clock);

// Reads `bytes` of memory with all threads: what the GB/s above can at most be, so the best of
// several rounds.
KernelMeasurement measure_read(std::size_t bytes, std::uint32_t thread_count,
                               const RunThreads& run_threads, const Clock& clock);

}  // namespace refrain::kernels
