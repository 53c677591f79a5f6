// Measures the attention kernels alone: decode of one row and prefill of a chunk at a depth, for a
// shape and a format. For `refrain bench kernels`. The caller brings threads and clock. Shapes as
// in paged_attention.h; the K/V of several layers are read in turn, so that they come from memory
// and not from a cache.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/clock.h"
#include "kernels/cpu_kernels.h"

namespace refrain::kernels {

struct KernelMeasurement {
  double seconds = 0.0;      // of one layer, the median of several rounds
  double gb_per_s = 0.0;     // stored bytes of the keys and values seen, once
  double gflop_per_s = 0.0;  // 2 x products of scores and of values, masked ones not counted
};

struct AttentionBench {
  AttentionShape shape;
  KvFormat format = KvFormat::kF16;
  std::uint32_t depth = 4096;   // tokens before the first row
  std::uint32_t row_count = 1;  // 1: decode
  std::uint32_t layer_count = 30;
  std::uint32_t block_size = 16;
  std::uint32_t rounds = 5;
  InstructionSet set = InstructionSet::kPortable;
};

// Runs function(thread) for thread 0 to thread_count - 1 at once and returns when all have.
using RunThreads = std::function<void(const std::function<void(std::uint32_t thread)>& function)>;

KernelMeasurement measure_attention(const AttentionBench& bench, std::uint32_t thread_count,
                                    const RunThreads& run_threads, const Clock& clock);

// GB/s of reading memory with all threads, the best of several ways: what the GB/s above can at
// most be.
double measure_read(std::span<const std::uint64_t> memory, std::uint32_t thread_count,
                    const RunThreads& run_threads, const Clock& clock);

}  // namespace refrain::kernels
