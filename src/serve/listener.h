// Listener: the listening socket and the thread that accepts. Plain POSIX, so that what serves the
// connections (connections.h) need not share its library's types with anyone.
//
//   ASSIGN_OR_RETURN(auto listener, Listener::open("127.0.0.1", 8080));
//   listener->start([&](int socket) { take_over(socket); }, [&] { return has_room(); });
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/result.h"

namespace refrain::serve {

class Listener {
 public:
  // `host` is an address or a name; port 0 = any free one. kInvalidArgument for an unknown name,
  // kUnavailable if the address cannot be had.
  static Result<std::unique_ptr<Listener>> open(const std::string& host, std::uint16_t port);
  ~Listener();  // stop()

  // `on_accept` gets each connected socket and owns it from then on. While `has_room` says no,
  // nothing is accepted: the kernel's backlog holds the others. Both run on the listener's thread.
  void start(std::function<void(int)> on_accept, std::function<bool()> has_room);
  void stop();  // closes the port; idempotent
  std::uint16_t port() const { return port_; }

 private:
  Listener(int socket, int wake, std::uint16_t port) : socket_(socket), wake_(wake), port_(port) {}
  void run();

  int socket_;
  int wake_;  // eventfd: written to end the thread
  const std::uint16_t port_;
  std::function<void(int)> on_accept_;
  std::function<bool()> has_room_;
  std::thread thread_;
};

// Raises this process's limit of open files so that `connections` fit; returns how many really do.
std::size_t make_room_for_connections(std::size_t connections, std::size_t reserve);

}  // namespace refrain::serve
