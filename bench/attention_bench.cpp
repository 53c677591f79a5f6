// Speed of the attention kernels at depth 4,096 for the shapes of SmolLM2 135M and Gemma 3 270M,
// beside the memory's read bandwidth.
//   attention_bench [THREADS] [DEPTH]
// With one thread, times are processor time: what else runs on the machine counts little.
#include "kernels/attention_bench.h"

#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <thread>

namespace {

// Threads that wait for work by spinning, as an executor's do.
class Threads {
 public:
  explicit Threads(std::uint32_t count) : count_(count), begin_(count), end_(count) {
    for (std::uint32_t i = 1; i < count; ++i) {
      threads_.emplace_back([this, i] {
        while (true) {
          begin_.arrive_and_wait();
          if (function_ == nullptr) return;
          (*function_)(i);
          end_.arrive_and_wait();
        }
      });
    }
  }
  ~Threads() {
    function_ = nullptr;
    begin_.arrive_and_wait();
    for (std::thread& thread : threads_) thread.join();
  }
  void run(const std::function<void(std::uint32_t)>& function) {
    function_ = &function;
    begin_.arrive_and_wait();
    function(0);
    end_.arrive_and_wait();
  }

 private:
  std::uint32_t count_;
  std::barrier<> begin_, end_;
  const std::function<void(std::uint32_t)>* function_ = nullptr;
  std::vector<std::thread> threads_;
};

class ProcessorClock final : public refrain::Clock {
 public:
  refrain::Tick now() const override {
    return static_cast<refrain::Tick>(static_cast<double>(std::clock()) * 1e9 / CLOCKS_PER_SEC);
  }
};

void print(const refrain::kernels::KernelMeasurement& m) {
  std::printf("%-44s %9.1f us %8.1f GB/s %8.1f GFLOP/s\n", m.name.c_str(), m.seconds * 1e6,
              m.gb_per_s, m.gflop_per_s);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace refrain::kernels;
  const auto thread_count = static_cast<std::uint32_t>(argc > 1 ? std::atoi(argv[1]) : 2);
  const auto depth = static_cast<std::uint32_t>(argc > 2 ? std::atoi(argv[2]) : 4096);
  if (thread_count < 1 || depth < 1) return 2;
  const refrain::SteadyClock steady_clock;
  const ProcessorClock processor_clock;
  const refrain::Clock& clock =
      thread_count == 1 ? static_cast<const refrain::Clock&>(processor_clock) : steady_clock;
  Threads threads(thread_count);
  const RunThreads run = [&](const auto& function) { threads.run(function); };
  print(measure_read(std::size_t{1} << 29U, thread_count, run, clock));
  struct Model {
    const char* label;
    AttentionShape shape;
    std::uint32_t layer_count;
  };
  const Model models[] = {{"9/3x64", {9, 3, 64, 64, 0.125F}, 30},
                          {"4/1x256", {4, 1, 256, 256, 0.0625F}, 18}};
  for (const Model& model : models) {
    for (const KvFormat format : {KvFormat::kF16, KvFormat::kQ8}) {
      AttentionBench bench{model.label, model.shape, format, depth};
      bench.layer_count = model.layer_count;
      print(measure_attention(bench, thread_count, run, clock));
      bench.row_count = 512;
      bench.depth = depth / 2 - 256;  // the mean depth of a prefill of `depth` tokens
      bench.layer_count = 2;
      print(measure_attention(bench, thread_count, run, clock));
    }
  }
  return 0;
}
