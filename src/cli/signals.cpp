// The watcher thread: poll on a signalfd and on an eventfd that ends it.
#include "cli/signals.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "base/check.h"

namespace refrain::cli {

struct SignalWatcher::Impl {
  sigset_t set{};
  int signal_fd = -1;
  int end_fd = -1;
  std::mutex mutex;  // guards handler and count
  Handler handler;
  int count = 0;
  std::thread thread;

  void deliver() {
    signalfd_siginfo info{};
    if (::read(signal_fd, &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return;
    std::lock_guard lock(mutex);
    ++count;
    if (handler) handler(static_cast<int>(info.ssi_signo), count);
  }

  void watch() {
    for (;;) {
      std::array<pollfd, 2> ready = {pollfd{signal_fd, POLLIN, 0}, pollfd{end_fd, POLLIN, 0}};
      if (::poll(ready.data(), ready.size(), -1) < 0) continue;  // EINTR
      if ((ready[1].revents & POLLIN) != 0) return;
      if ((ready[0].revents & POLLIN) != 0) deliver();
    }
  }
};

SignalWatcher::SignalWatcher(bool ignore_hangup) : impl_(std::make_unique<Impl>()) {
  if (ignore_hangup) std::signal(SIGHUP, SIG_IGN);
  sigemptyset(&impl_->set);
  sigaddset(&impl_->set, SIGINT);
  sigaddset(&impl_->set, SIGTERM);
  CHECK(pthread_sigmask(SIG_BLOCK, &impl_->set, nullptr) == 0, "signals cannot be blocked");
  impl_->signal_fd = ::signalfd(-1, &impl_->set, SFD_CLOEXEC);
  impl_->end_fd = ::eventfd(0, EFD_CLOEXEC);
  CHECK(impl_->signal_fd >= 0 && impl_->end_fd >= 0, "no descriptors left at start-up");
  impl_->thread = std::thread([this] { impl_->watch(); });
}

SignalWatcher::~SignalWatcher() {
  const std::uint64_t one = 1;
  CHECK(::write(impl_->end_fd, &one, sizeof one) == static_cast<ssize_t>(sizeof one), "eventfd");
  impl_->thread.join();
  ::close(impl_->signal_fd);
  ::close(impl_->end_fd);
}

void SignalWatcher::set_handler(Handler handler) {
  std::lock_guard lock(impl_->mutex);
  impl_->handler = std::move(handler);
}

void leave_now(int exit_code) {
  std::_Exit(exit_code);
}

}  // namespace refrain::cli
