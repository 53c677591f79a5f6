// See connections.h.
#include "serve/connections.h"

#include <utility>
#include <vector>

namespace refrain::serve {

Connections::Connections(ServerCore& core)
    : core_(core),
      shared_{.core = core,
              .network = network_,
              .activity = activity_,
              .on_end = [this](const Connection* connection) { forget(connection); }} {}

void Connections::start(std::size_t max_connections) {
  max_connections_ = max_connections;
  network_.start(core_.options().network_threads);
}

bool Connections::has_room() const {
  std::lock_guard lock(mutex_);
  return overload_count_ < kMaxOverload;
}

void Connections::adopt(int socket) {
  std::size_t count = 0;
  {
    std::lock_guard lock(mutex_);
    count = connections_.size();
    if (count >= max_connections_) ++overload_count_;
  }
  if (count >= max_connections_) {
    // Counts until the last word to the client is said.
    const std::shared_ptr<void> mark(this, [](Connections* owner) { owner->end_overload(); });
    Connection::refuse(socket, shared_, mark);
    return;
  }
  const std::shared_ptr<Connection> connection = Connection::create(socket, shared_);
  if (connection == nullptr) return;
  {
    std::lock_guard lock(mutex_);
    connections_.emplace(connection.get(), connection);
    count = connections_.size();
  }
  core_.count_connections(count);
  connection->start();
}

void Connections::end_overload() {
  std::lock_guard lock(mutex_);
  --overload_count_;
}

void Connections::forget(const Connection* connection) {
  std::size_t count = 0;
  {
    std::lock_guard lock(mutex_);
    connections_.erase(connection);
    count = connections_.size();
  }
  core_.count_connections(count);
}

void Connections::close_idle() {
  std::vector<std::shared_ptr<Connection>> open;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [key, weak] : connections_)
      if (auto connection = weak.lock()) open.push_back(std::move(connection));
  }
  for (auto& connection : open) connection->close_if_idle();
}

bool Connections::wait_until_quiet(std::uint32_t timeout_ms) {
  return activity_.wait_until_quiet(timeout_ms);
}

void Connections::stop() {
  network_.stop();
}

}  // namespace refrain::serve
