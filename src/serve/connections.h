// Connections: all open connections of a server and the threads that serve them. Bounds their
// number; beyond it a client is told so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "serve/activity.h"
#include "serve/connection.h"
#include "serve/network.h"
#include "serve/server_core.h"

namespace refrain::serve {

class Connections {
 public:
  // Connections beyond the maximum that are being told so, at most.
  static constexpr std::size_t kMaxOverload = 128;

  explicit Connections(ServerCore& core);

  void start(std::size_t max_connections);
  // Takes over a connected socket; one too many gets a 503. One thread at a time.
  void adopt(int socket);
  // Whether adopt() may be called now.
  bool has_room() const;
  // Idle connections are closed, also those that become idle later (the core's phase says so).
  void close_idle();
  // Waits until no request is being worked on; false if that took longer.
  bool wait_until_quiet(std::uint32_t timeout_ms);
  void stop();  // idempotent; no thread of ours runs afterwards

 private:
  void forget(const Connection* connection);
  void end_overload();

  ServerCore& core_;
  Activity activity_;
  std::size_t max_connections_ = 0;

  mutable std::mutex mutex_;  // guards the two below
  std::map<const Connection*, std::weak_ptr<Connection>> connections_;
  std::size_t overload_count_ = 0;

  // Last, so that it goes first: its unfinished coroutines use all of the above.
  ConnectionShared shared_;
  Network network_;
};

}  // namespace refrain::serve
