// ServerCore: everything of a server but the network: the door, the endpoints, the shared state of
// calls. Used by all connections at once; outlives them.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "serve/api.h"
#include "serve/byte_budget.h"
#include "serve/call.h"
#include "serve/front_door.h"
#include "serve/server.h"
#include "serve/tenant_board.h"

namespace refrain::serve {

class ServerCore {
 public:
  ServerCore(const ServerParts& parts, const ServerOptions& options);

  const ServerOptions& options() const { return options_; }
  const FrontDoor& door() const { return door_; }
  const CallEnvironment& environment() const { return environment_; }
  ByteBudget& bodies() { return bodies_; }

  // Answer to a GET; none for endpoints that take a body. Never waits for the engine.
  std::optional<HttpResponse> page(const Admission& admission) const;
  // Why new work is refused now, if it is.
  std::optional<Error> closed() const;
  // A place in the caller's share of the queue.
  Result<TenantBoard::Ticket> enter(const Caller& caller) { return board_.enter(caller); }
  // Read, check, render, tokenize. May take long: worker threads.
  Result<Prepared> prepare(const Admission& admission, const HttpRequest& request) {
    return api_.prepare(admission.route, request, admission.caller);
  }
  Result<void> compile_grammar(PreparedCall& call) { return api_.compile_grammar(call); }

  // A request for the engine ended before it got there; the engine counts the others itself.
  void count_refused(const Route& route) const;
  void count_response(unsigned status) const;
  void count_connections(std::size_t count) const;
  double retry_after_s() const { return submitter_.retry_after_s(); }

  // Work that nobody waits for ends.
  void stop_background() { summaries_.stop(); }
  void set_phase(ServePhase phase) { phase_.store(phase); }
  ServePhase phase() const { return phase_.load(); }

 private:
  const ServerParts parts_;
  const ServerOptions options_;
  const std::int64_t started_s_;
  std::atomic<ServePhase> phase_{ServePhase::kServing};
  FrontDoor door_;
  TenantBoard board_;
  EngineSubmitter submitter_;
  ChatEncoder encoder_;
  Summaries summaries_;
  Api api_;
  CallEnvironment environment_;
  ByteBudget bodies_;
};

}  // namespace refrain::serve
