// See server.h. Joins the core with the network and orders the steps of a shutdown.
#include "serve/server.h"

#include "serve/http_server.h"
#include "serve/server_core.h"

namespace refrain::serve {
namespace {

// After the grace time, calls are told to end; writing their last words takes no longer than this.
constexpr std::uint32_t kLastWordsMs = 2000;

}  // namespace

class Server::Impl {
 public:
  Impl(const ServerParts& parts, const ServerOptions& options)
      : engine_(*parts.engine), core_(parts, options), http_(core_) {}

  Result<void> start() { return http_.start(); }
  std::uint16_t port() const { return http_.port(); }

  void drain() {
    core_.set_phase(ServePhase::kDraining);
    engine_.drain();
    http_.close_idle();
    if (http_.wait_until_quiet(core_.options().drain_grace_s * 1000)) return;
    core_.set_phase(ServePhase::kAborting);
    http_.wait_until_quiet(kLastWordsMs);
  }

  void stop() {
    core_.set_phase(ServePhase::kAborting);
    http_.stop();
  }

 private:
  engine::Engine& engine_;
  ServerCore core_;
  HttpServer http_;
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
