// Summarizer: runs summary jobs on the engine, a few at a time, while answers go on: they share its
// batches and give way to everybody else. One thread of its own; post() and stop() from any.
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "base/ids.h"
#include "metrics/registry.h"
#include "serve/event_queue.h"
#include "serve/submitter.h"
#include "serve/summary_job.h"

namespace refrain::serve {

class Summarizer {
 public:
  static constexpr std::size_t kTogether = 4;     // jobs at work
  static constexpr std::size_t kMaxWaiting = 64;  // further ones are refused

  // Both outlive it.
  Summarizer(Submitter& engine, metrics::Registry& metrics);
  ~Summarizer();  // stop()

  void post(std::unique_ptr<SummaryJob> job);
  // Ends running jobs, takes no more, joins the thread. Idempotent.
  void stop();

 private:
  struct Slot {
    std::unique_ptr<SummaryJob> job;
    RequestId request{};
  };

  void run();
  void take_events();
  void go_on(std::size_t index);
  bool has_free_slot() const;

  Submitter& engine_;
  metrics::Registry& metrics_;
  std::array<Slot, kTogether> slots_;  // of the thread
  std::shared_ptr<EventQueue> events_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::deque<std::unique_ptr<SummaryJob>> waiting_;
  bool has_events_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace refrain::serve
