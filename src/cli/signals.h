// SignalWatcher: SIGINT and SIGTERM as plain function calls on a thread of its own (signalfd), so
// nothing has to be async-signal-safe. Made before any other thread, which then inherits the
// blocked signals. SIGPIPE is ignored in main(). One per process.
//
//   SignalWatcher signals;                       // from here on they are blocked and queued
//   signals.set_handler([&](int signal, int count) { ... });   // watcher thread; count from 1
#pragma once

#include <functional>
#include <memory>

namespace refrain::cli {

class SignalWatcher {
 public:
  using Handler = std::function<void(int signal, int count)>;
  // `ignore_hangup`: a server outlives its terminal.
  explicit SignalWatcher(bool ignore_hangup);
  ~SignalWatcher();

  // Replaces the handler; waits for a call of the old one to return. `count` goes on.
  void set_handler(Handler handler);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Ends the process at once, without destructors; for second signals. Any thread.
[[noreturn]] void leave_now(int exit_code);

}  // namespace refrain::cli
