// Connection: one client's TCP connection: reads requests, writes what ServerCore and Call give.
// Lives as long as its coroutine, which runs on the network threads. What is said over it is
// decided elsewhere.
#pragma once

#include <functional>
#include <memory>

#include "serve/activity.h"
#include "serve/network.h"
#include "serve/server_core.h"

namespace refrain::serve {

class Connection;

// What all connections use; outlives them.
struct ConnectionShared {
  ServerCore& core;
  Network& network;
  Activity& activity;
  std::function<void(const Connection*)> on_end;  // called by the destructor, any thread
};

class Connection {
 public:
  virtual ~Connection() = default;
  // Takes over a connected socket; null if the system refuses that.
  static std::shared_ptr<Connection> create(int native_socket, const ConnectionShared& shared);
  // Tells the client that there are too many connections, and closes; then drops `mark`.
  static void refuse(int native_socket, const ConnectionShared& shared, std::shared_ptr<void> mark);

  virtual void start() = 0;
  // Closes it if it waits for a request. Any thread.
  virtual void close_if_idle() = 0;
};

}  // namespace refrain::serve
