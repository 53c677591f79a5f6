// ThreadGovernor: how many threads the next graph should use. ggml's threads wait for each other by
// spinning, a few hundred times per graph; when other programs want the same cores, a thread that
// has lost its core holds up all the others and two threads can be several times slower than one.
// So it watches how much processor time the threads got of what they could have had, halves their
// number when they are crowded out, and tries more again later, ever more rarely while that fails.
// The number of threads changes no result. Plain arithmetic, no clock of its own; engine thread.
//
//   threads   2 2 | 1 1 | 2 | 1 1 1 1 | 2 2 2 2 ...
//             crowded    crowded        alone again
#pragma once

#include <cstdint>

namespace refrain::model {

class ThreadGovernor {
 public:
  explicit ThreadGovernor(std::uint32_t thread_count_max)
      : maximum_(thread_count_max), current_(thread_count_max) {}

  std::uint32_t thread_count() const { return current_; }

  // What a graph on thread_count() threads took: time on the wall, and processor time of the whole
  // process.
  void record(std::int64_t wall_ns, std::int64_t cpu_ns);

 private:
  std::uint32_t maximum_;
  std::uint32_t current_;
  std::uint32_t pause_graphs_ = 0;  // until more threads are tried
  std::uint32_t next_pause_graphs_ = 2;
};

}  // namespace refrain::model
