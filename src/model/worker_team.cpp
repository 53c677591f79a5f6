// Claims, waits and sleeps. See worker_team.h for who runs what.
#include "model/worker_team.h"

#include <sched.h>

#include <system_error>

#include "base/check.h"

namespace refrain::model {
namespace {

constexpr std::uint32_t kIndexBits = 20;
constexpr std::uint64_t kIndexMask = (std::uint64_t{1} << kIndexBits) - 1;
// A pause takes some 40 to 140 cycles. Spinning covers the gap between the steps of a batch and,
// mostly, between batches; beyond it the core is offered to others, then given up.
constexpr std::uint32_t kSpins = 1500;
constexpr std::uint32_t kYields = 200;

std::uint64_t step_of(std::uint64_t ticket) {
  return ticket >> (2 * kIndexBits);
}
std::uint32_t count_of(std::uint64_t ticket) {
  return static_cast<std::uint32_t>((ticket >> kIndexBits) & kIndexMask);
}
std::uint32_t next_of(std::uint64_t ticket) {
  return static_cast<std::uint32_t>(ticket & kIndexMask);
}

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

Result<std::unique_ptr<WorkerTeam>> WorkerTeam::create(std::uint32_t thread_count) {
  CHECK(thread_count > 0, "a team of no threads");
  std::unique_ptr<WorkerTeam> team(new WorkerTeam);
  team->threads_.reserve(thread_count - 1);
  try {
    for (std::uint32_t thread = 1; thread < thread_count; ++thread) {
      team->threads_.emplace_back([self = team.get(), thread] { self->work(thread); });
    }
  } catch (const std::system_error&) {
    return Error{Code::kUnavailable, "cannot start the compute threads",
                 "try fewer with --threads, or raise the limit of threads (ulimit -u)"};
  }
  return team;
}

WorkerTeam::~WorkerTeam() {
  stopping_.store(true);
  ticket_.fetch_add(std::uint64_t{1} << (2 * kIndexBits));  // a step that spinning threads notice
  wake_.fetch_add(1);
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerTeam::run_shared(std::uint32_t count, Function function, void* context) {
  CHECK(count + thread_count() < kIndexMask, "too many tasks in one step");
  function_ = function;
  context_ = context;
  done_.store(0, std::memory_order_relaxed);
  const std::uint64_t step = step_of(ticket_.load(std::memory_order_relaxed)) + 1;
  // Also orders the store before the look at sleepers_ (see wait_for_step).
  ticket_.store(step << (2 * kIndexBits) | std::uint64_t{count} << kIndexBits,
                std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) {
    wake_.fetch_add(1);
    wake_.notify_all();
  }
  take_tasks(0);
  for (std::uint32_t spins = 0; done_.load(std::memory_order_acquire) != count; ++spins) {
    if (spins < kSpins) {
      pause();
    } else {
      sched_yield();
    }
  }
}

// Runs tasks until none is left to claim; returns the step that was found finished.
std::uint64_t WorkerTeam::take_tasks(std::uint32_t thread) {
  while (true) {
    const std::uint64_t seen = ticket_.load(std::memory_order_acquire);
    if (next_of(seen) >= count_of(seen)) return step_of(seen);
    // What is claimed may belong to a later step than was seen; the ticket tells.
    const std::uint64_t claimed = ticket_.fetch_add(1, std::memory_order_acq_rel);
    if (next_of(claimed) >= count_of(claimed)) return step_of(claimed);
    function_(context_, next_of(claimed), thread);
    done_.fetch_add(1, std::memory_order_release);
  }
}

void WorkerTeam::work(std::uint32_t thread) {
  std::uint64_t finished = 0;
  while (true) {
    wait_for_step(finished);
    if (stopping_.load()) return;
    finished = take_tasks(thread);
  }
}

// Returns when a step other than `finished` is published, or the team ends.
void WorkerTeam::wait_for_step(std::uint64_t finished) const {
  const auto changed = [&] {
    // A thread may have seen the destructor's step as a finished one already.
    return step_of(ticket_.load(std::memory_order_seq_cst)) != finished || stopping_.load();
  };
  for (std::uint32_t i = 0; i < kSpins; ++i) {
    if (changed()) return;
    pause();
  }
  for (std::uint32_t i = 0; i < kYields; ++i) {
    if (changed()) return;
    sched_yield();
  }
  while (!changed()) {
    const std::uint32_t wake = wake_.load(std::memory_order_seq_cst);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    if (!changed()) wake_.wait(wake, std::memory_order_seq_cst);
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  }
}

}  // namespace refrain::model
