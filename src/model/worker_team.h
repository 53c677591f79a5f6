// WorkerTeam: threads that share the tasks of one parallel step. The calling thread takes part and
// may take all tasks itself: it waits only for tasks that another thread has begun, so a thread
// that the system has put aside holds nothing up. Tasks are claimed one by one from a ticket; which
// thread runs which task must not matter for the result. Idle threads spin for a short while, then
// sleep. run() is called by one thread (the engine's).
//
//   ticket   [step: 24 bits | tasks of the step: 20 | next task: 20], so that one atomic addition
//            claims a task and tells of which step it is
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/result.h"

namespace refrain::model {

class WorkerTeam {
 public:
  // kUnavailable if the system gives no threads. thread_count counts the calling thread.
  static Result<std::unique_ptr<WorkerTeam>> create(std::uint32_t thread_count);
  ~WorkerTeam();

  std::uint32_t thread_count() const { return static_cast<std::uint32_t>(threads_.size()) + 1; }

  // Calls task(index, thread) for each index < count, on any thread < thread_count(), and returns
  // when all have returned. Task: callable as void(std::uint32_t, std::uint32_t).
  template <typename Task>
  void run(std::uint32_t count, Task& task) {
    if (count <= 1 || threads_.empty()) {
      for (std::uint32_t i = 0; i < count; ++i) task(i, 0);
      return;
    }
    run_shared(
        count,
        [](void* context, std::uint32_t index, std::uint32_t thread) {
          (*static_cast<Task*>(context))(index, thread);
        },
        &task);
  }

 private:
  using Function = void (*)(void* context, std::uint32_t index, std::uint32_t thread);

  WorkerTeam() = default;
  void run_shared(std::uint32_t count, Function function, void* context);
  void work(std::uint32_t thread);
  std::uint64_t take_tasks(std::uint32_t thread);
  void wait_for_step(std::uint64_t finished) const;

  std::vector<std::thread> threads_;
  // Written before the step's ticket is published, read after a task of it is claimed.
  Function function_ = nullptr;
  void* context_ = nullptr;
  alignas(64) std::atomic<std::uint64_t> ticket_{0};
  alignas(64) std::atomic<std::uint32_t> done_{0};
  alignas(64) mutable std::atomic<std::uint32_t> sleepers_{0};
  std::atomic<std::uint32_t> wake_{0};
  std::atomic<bool> stopping_{false};
};

}  // namespace refrain::model
