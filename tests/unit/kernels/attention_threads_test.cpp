// Tasks of one attention call on several threads: they write apart from each other, and give the
// bits that one thread gives. ThreadSanitizer sees these threads; it does not see into ggml's.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "kernels/paged_attention.h"

namespace refrain::kernels {
namespace {

struct AlignedFloats {
  explicit AlignedFloats(std::size_t count)
      : data(static_cast<float*>(::operator new(count * sizeof(float), std::align_val_t{64}))) {}
  AlignedFloats(const AlignedFloats&) = delete;
  AlignedFloats& operator=(const AlignedFloats&) = delete;
  ~AlignedFloats() { ::operator delete(data, std::align_val_t{64}); }
  float* const data;
};

// Two sequences of 70 rows each, on blocks of 16.
struct Call {
  static constexpr std::uint32_t kRows = 140, kBlocks = 10, kBlockSize = 16;
  AttentionShape shape{.head_count = 4, .kv_head_count = 2, .key_dim = 32, .value_dim = 32};
  std::vector<float> query, output;
  std::vector<std::uint16_t> keys, values;
  std::vector<BlockId> tables[2];
  std::vector<Position> positions;
  std::vector<AttentionSequence> sequences;
  std::vector<AttentionTask> tasks;

  Call() {
    Rng rng(7);
    const std::size_t row = std::size_t{shape.head_count} * shape.key_dim;
    for (std::size_t i = 0; i < kRows * row; ++i)
      query.push_back(static_cast<float>(rng.next() % 1000) / 500.0F - 1.0F);
    output.assign(query.size(), 0.0F);
    const std::size_t cells =
        std::size_t{kBlocks} * kBlockSize * shape.kv_head_count * shape.key_dim;
    for (std::size_t i = 0; i < cells; ++i) {  // float16 between 1 and 2, and their negatives
      keys.push_back(static_cast<std::uint16_t>(0x3C00 | (rng.next() & 0x83FF)));
      values.push_back(static_cast<std::uint16_t>(0x3C00 | (rng.next() & 0x83FF)));
    }
    for (std::uint32_t s = 0; s < 2; ++s) {
      for (std::uint32_t b = 0; b < kBlocks / 2; ++b) tables[s].push_back(BlockId{2 * b + s});
      for (std::uint32_t i = 0; i < kRows / 2; ++i) positions.push_back(static_cast<Position>(i));
      sequences.push_back({tables[s].data(), s * (kRows / 2), kRows / 2});
    }
    plan_attention(sequences, positions.data(), shape, tasks);
  }

  std::vector<float> run(std::size_t thread_count) {
    output.assign(output.size(), 0.0F);
    const AttentionCall call{shape,         query.data(),     output.data(),    keys.data(),
                             values.data(), positions.data(), sequences.data(), kBlockSize};
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
      const AlignedFloats scratch(attention_scratch_floats(shape));
      for (std::size_t i = next++; i < tasks.size(); i = next++)
        run_attention(call, tasks[i], scratch.data);
    };
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < thread_count; ++i) threads.emplace_back(work);
    for (std::thread& thread : threads) thread.join();
    return output;
  }
};

TEST(AttentionThreads, TasksOnSeveralThreadsGiveTheBitsOfOne) {
  Call call;
  ASSERT_GE(call.tasks.size(), 4U);
  const std::vector<float> one = call.run(1);
  EXPECT_NE(one, std::vector<float>(one.size(), 0.0F));
  for (int round = 0; round < 10; ++round) {
    const std::vector<float> four = call.run(4);
    ASSERT_EQ(std::memcmp(one.data(), four.data(), one.size() * sizeof(float)), 0);
  }
}

}  // namespace
}  // namespace refrain::kernels
