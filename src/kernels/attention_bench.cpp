// Measurements of the attention kernels. The threads that the caller brings run tasks, the calling
// thread sets up and takes the time.
#include "kernels/attention_bench.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <numeric>
#include <span>

#include "base/aligned_buffer.h"
#include "base/check.h"
#include "base/rng.h"
#include "base/statistics.h"
#include "kernels/cpu_kernels.h"
#include "kernels/kv_rows.h"

namespace refrain::kernels {
namespace {

void fill_random(std::vector<float>& values, Rng& rng) {
  for (float& x : values) {
    x = static_cast<float>(static_cast<double>(rng.next() >> 40) / (1 << 24)) * 2.0F - 1.0F;
  }
}

// Keys that the rows see, summed over rows.
double keys_seen(const AttentionBench& bench) {
  double total = 0.0;
  for (std::uint32_t row = 0; row < bench.row_count; ++row) {
    const std::uint32_t keys = bench.depth + row + 1;
    total += bench.shape.window > 0 ? std::min(keys, bench.shape.window) : keys;
  }
  return total;
}

// Reads `streams` parts in turn, a cache line of each, asked for well ahead: which number of them
// the prefetchers like best differs.
std::uint64_t sum_of(std::span<const std::uint64_t> words, std::size_t streams) {
  constexpr std::size_t kLine = 8, kLinesAhead = 32;
  std::uint64_t sums[kLine] = {};
  const std::size_t length = words.size() / streams;
  for (std::size_t i = 0; i + kLine <= length; i += kLine) {
    for (std::size_t stream = 0; stream < streams; ++stream) {
      const std::uint64_t* line = words.data() + stream * length + i;
      __builtin_prefetch(line + kLine * kLinesAhead);
      for (std::size_t j = 0; j < kLine; ++j) sums[j] += line[j];
    }
  }
  return std::accumulate(std::begin(sums), std::end(sums), std::uint64_t{0});
}

class Setup {
 public:
  Setup(const AttentionBench& bench, std::uint32_t thread_count)
      : bench_(bench), kernels_(cpu_kernels(bench.set)) {
    const AttentionShape& shape = bench.shape;
    const std::uint32_t length = bench.depth + bench.row_count;
    const std::uint32_t blocks = (length + bench.block_size - 1) / bench.block_size;
    const std::size_t tiles = std::size_t{blocks} * bench.block_size / kTileTokens;
    Rng rng(1);
    for (std::uint32_t b = 0; b < blocks; ++b) table_.push_back(BlockId{b});
    for (std::size_t i = blocks; i > 1; --i) std::swap(table_[i - 1], table_[rng.next() % i]);
    call_.shape = shape;
    call_.layout =
        make_kv_layout(bench.format, shape.kv_head_count, shape.key_dim, shape.value_dim, tiles);
    layers_.resize(bench.layer_count);
    for (std::vector<std::byte>& layer : layers_) layer.resize(call_.layout.layer_bytes);
    fill_layers(length, rng);
    query_.resize(std::size_t{bench.row_count} * shape.head_count * shape.key_dim);
    fill_random(query_, rng);
    output_.resize(std::size_t{bench.row_count} * shape.head_count * shape.value_dim);
    positions_.resize(bench.row_count);
    std::iota(positions_.begin(), positions_.end(), static_cast<Position>(bench.depth));
    sequence_ = {table_.data(), 0, bench.row_count};
    plan_attention({&sequence_, 1}, positions_.data(), shape, thread_count, plan_);
    CHECK(scratch_.reserve(attention_scratch_floats(shape) * sizeof(float), thread_count),
          "no memory for the threads");
    call_.query = query_.data();
    call_.output = output_.data();
    call_.positions = positions_.data();
    call_.sequences = &sequence_;
    call_.block_size = bench.block_size;
  }

  void run_layer(std::uint32_t layer, const RunThreads& run_threads) {
    call_.kv = layers_[layer].data();
    next_task_ = 0;
    run_threads([this](std::uint32_t thread) {
      for (std::size_t task = next_task_++; task < plan_.tasks.size(); task = next_task_++) {
        kernels_.attention(bench_.format)(call_, plan_, plan_.tasks[task],
                                          scratch_.floats_of(thread));
      }
    });
  }

  // Bytes of all keys that some row sees.
  double stored_bytes() const {
    const std::uint32_t window = bench_.shape.window;
    const std::uint32_t length = bench_.depth + bench_.row_count;
    const std::uint32_t keys =
        window > 0 ? std::min(length, window + bench_.row_count - 1) : length;
    return static_cast<double>(kv_bytes_per_token(call_.layout)) * keys;
  }

 private:
  void fill_layers(std::uint32_t length, Rng& rng) {
    const AttentionShape& shape = bench_.shape;
    std::vector<float> keys(std::size_t{length} * shape.kv_head_count * shape.key_dim);
    std::vector<float> values(std::size_t{length} * shape.kv_head_count * shape.value_dim);
    fill_random(keys, rng);
    fill_random(values, rng);
    std::vector<std::int64_t> slots(length);
    for (std::uint32_t t = 0; t < length; ++t) {
      slots[t] = std::int64_t{static_cast<std::uint32_t>(table_[t / bench_.block_size])} *
                     bench_.block_size +
                 t % bench_.block_size;
    }
    // Those of the rows' own tiles, where the layout keeps remainders.
    const std::size_t width = std::size_t{shape.kv_head_count} * call_.layout.value_columns;
    numbers_.resize(length * width);
    std::vector<RemainderRow> stored(length);
    for (std::uint32_t t = 0; t < length; ++t) stored[t] = {numbers_.data() + t * width, 0};
    kernels_.store_kv_rows(call_.layout, layers_[0].data(), 0, slots.data(), length, keys.data(),
                           values.data(), stored.data());
    for (std::uint32_t row = 0; row < bench_.row_count; ++row) {
      const std::uint32_t at = bench_.depth + row, begin = at / kTileTokens * kTileTokens;
      for (std::uint32_t i = 0; i < kTileTokens; ++i)
        seen_.push_back(begin + i <= at ? stored[begin + i] : RemainderRow{});
    }
    call_.remainders = seen_.data();
    for (std::size_t i = 1; i < layers_.size(); ++i) layers_[i] = layers_[0];
  }

  const AttentionBench& bench_;
  const CpuKernels& kernels_;
  std::vector<BlockId> table_;
  std::vector<std::vector<std::byte>> layers_;
  std::vector<float> query_, output_;
  std::vector<std::uint16_t> numbers_;  // remainders
  std::vector<RemainderRow> seen_;
  ThreadScratch scratch_;
  std::vector<Position> positions_;
  AttentionSequence sequence_;
  AttentionPlan plan_;
  AttentionCall call_;
  std::atomic<std::size_t> next_task_ = 0;
};

}  // namespace

KernelMeasurement measure_attention(const AttentionBench& bench, std::uint32_t thread_count,
                                    const RunThreads& run_threads, const Clock& clock) {
  CHECK(bench.rounds > 0, "nothing to measure");
  Setup setup(bench, thread_count);
  setup.run_layer(0, run_threads);  // page tables and caches of the rest come into being here
  std::vector<double> times;
  for (std::uint32_t round = 0; round < bench.rounds; ++round) {
    const Tick begin = clock.now();
    for (std::uint32_t layer = 0; layer < bench.layer_count; ++layer) {
      setup.run_layer(layer, run_threads);
    }
    times.push_back(to_seconds(clock.now() - begin) / bench.layer_count);
  }
  const double seconds = median(std::move(times));
  const double products =
      keys_seen(bench) * bench.shape.head_count * (bench.shape.key_dim + bench.shape.value_dim);
  return {seconds, 1e-9 * setup.stored_bytes() / seconds, 2e-9 * products / seconds};
}

double measure_read(std::span<const std::uint64_t> memory, std::uint32_t thread_count,
                    const RunThreads& run_threads, const Clock& clock) {
  std::atomic<std::uint64_t> total = 0;  // so that the reading is not optimised away
  double best = std::numeric_limits<double>::max();
  for (const std::size_t streams : {1U, 2U, 4U, 8U}) {
    for (int round = 0; round < 3; ++round) {
      const Tick begin = clock.now();
      run_threads([&](std::uint32_t thread) {
        const std::size_t first = memory.size() * thread / thread_count;
        const std::size_t last = memory.size() * (thread + 1) / thread_count;
        total += sum_of(memory.subspan(first, last - first), streams);
      });
      best = std::min(best, to_seconds(clock.now() - begin));
    }
  }
  return 1e-9 * static_cast<double>(memory.size_bytes()) / best;
}

}  // namespace refrain::kernels
