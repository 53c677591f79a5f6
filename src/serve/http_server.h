// HttpServer: sockets. Accepts connections, reads requests, writes what ServerCore and Call give
// it. One coroutine on one strand per connection, a few network threads for all of them, and worker
// threads for what takes long (JSON, templates, tokens, grammars). Boost.Asio and Beast appear in
// http_server.cpp only.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "serve/server_core.h"

namespace refrain::serve {

class HttpServer {
 public:
  explicit HttpServer(ServerCore& core);
  ~HttpServer();
  Result<void> start();  // binds, listens, begins to serve
  std::uint16_t port() const;
  // Idle connections are closed, also those that become idle later.
  void close_idle();
  // Waits until no request is being worked on; false if that took longer.
  bool wait_until_quiet(std::uint32_t timeout_ms);
  void stop();  // idempotent; no thread of ours runs afterwards

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace refrain::serve
