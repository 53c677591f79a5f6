// Connections: reads requests from sockets and writes what ServerCore and Call give. One coroutine
// on one strand per connection, a few network threads for all of them, and worker threads for what
// takes long (JSON, templates, tokens, grammars). Boost.Asio and Beast appear in connections.cpp
// only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "serve/server_core.h"

namespace refrain::serve {

class Connections {
 public:
  // Connections beyond the maximum that are being told so, at most.
  static constexpr std::size_t kMaxOverload = 128;

  explicit Connections(ServerCore& core);
  ~Connections();  // stop()

  void start(std::size_t max_connections);
  // Takes over a connected socket; one too many gets a 503.
  void adopt(int socket);
  // Whether adopt() may be called now.
  bool has_room() const;
  // Idle connections are closed, also those that become idle later (the core's phase says so).
  void close_idle();
  // Waits until no request is being worked on; false if that took longer.
  bool wait_until_quiet(std::uint32_t timeout_ms);
  void stop();  // idempotent; no thread of ours runs afterwards

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace refrain::serve
