// See server.h. Joins the core with the network and orders the steps of a shutdown.
#include "serve/server.h"

#include "serve/connections.h"
#include "serve/listener.h"
#include "serve/server_core.h"

namespace refrain::serve {
namespace {

// After the grace time, calls are told to end; writing their last words takes no longer than this.
constexpr std::uint32_t kLastWordsMs = 2000;
constexpr std::size_t kOwnFiles = 64;  // descriptors that are not connections

}  // namespace

class Server::Impl {
 public:
  Impl(const ServerParts& parts, const ServerOptions& options)
      : engine_(*parts.engine), core_(parts, options), connections_(core_) {}

  Result<void> start() {
    const ServerOptions& options = core_.options();
    ASSIGN_OR_RETURN(listener_, Listener::open(options.host, options.port));
    connections_.start(
        make_room_for_connections(options.max_connections, Connections::kMaxOverload + kOwnFiles));
    listener_->start([this](int socket) { connections_.adopt(socket); },
                     [this] { return connections_.has_room(); });
    return {};
  }

  std::uint16_t port() const { return listener_ ? listener_->port() : 0; }

  void drain() {
    core_.set_phase(ServePhase::kDraining);
    core_.stop_background();
    engine_.drain();
    connections_.close_idle();
    if (connections_.wait_until_quiet(core_.options().drain_grace_s * 1000)) return;
    core_.set_phase(ServePhase::kAborting);
    connections_.wait_until_quiet(kLastWordsMs);
  }

  void stop() {
    core_.set_phase(ServePhase::kAborting);
    core_.stop_background();
    if (listener_) listener_->stop();
    connections_.stop();
  }

 private:
  engine::Engine& engine_;
  ServerCore core_;
  Connections connections_;
  std::unique_ptr<Listener> listener_;  // goes first: it feeds the connections
};

Server::Server(const ServerParts& parts, const ServerOptions& options)
    : impl_(std::make_unique<Impl>(parts, options)) {}

Server::~Server() {
  stop();
}

Result<void> Server::start() {
  return impl_->start();
}
std::uint16_t Server::port() const {
  return impl_->port();
}
void Server::drain() {
  impl_->drain();
}
void Server::stop() {
  impl_->stop();
}

}  // namespace refrain::serve
