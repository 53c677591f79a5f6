// Call: one client request on its way through the engine, without any socket: the connection asks
// step() what to write whenever something may have changed, and waits in between. Decides when the
// head of a stream goes out, sends keep-alive comments, notices that the client has left, ends with
// an error where it must, and cancels in the engine whatever is not needed any more.
// Owned by a connection; runs on its strand.
//
//   Call call(environment, std::move(prepared), wire, cors_headers, ticket, notify);
//   for (;;) { auto step = call.step(peer); write(step.bytes); if (step.done) break; wait(); }
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "serve/event_queue.h"
#include "serve/http_message.h"
#include "serve/peer_state.h"
#include "serve/prepared_call.h"
#include "serve/submitter.h"
#include "serve/tenant_board.h"

namespace refrain::serve {

enum class ServePhase {
  kServing,
  kDraining,  // running calls go on, new ones are refused
  kAborting,  // the grace time is over: calls end now with an error
};

// What all calls of a server share; outlives them.
struct CallEnvironment {
  Submitter* engine = nullptr;
  const Clock* clock = nullptr;
  const std::atomic<ServePhase>* phase = nullptr;
  Tick comment_interval = 10 * kSecond;  // SSE comment while nothing is generated
};

class Call {
 public:
  // Engine requests of one call that run at the same time; further ones follow as these finish.
  static constexpr std::size_t kMaxInFlight = 16;
  // A stream that has nothing to say yet: its head goes out after this long, so that failures
  // before still get their own status.
  static constexpr Tick kHeadDelay = kSecond;
  // How long after the client closed its sending side we write something to learn whether it still
  // reads (a closed client answers with a reset).
  static constexpr Tick kProbeDelay = kSecond / 2;

  struct Step {
    std::string bytes;       // to be written now; may be empty
    bool done = false;       // nothing follows
    bool keep_alive = true;  // after done: whether the connection can be used again
    unsigned status = 0;     // after done: the status that was sent, 0 if the client was gone
  };

  Call(const CallEnvironment& environment, PreparedCall prepared, const WireOptions& wire,
       std::vector<HttpHeader> extra_headers, TenantBoard::Ticket ticket,
       std::function<void()> notify);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  Step step(PeerState peer);

 private:
  void submit_more();
  void take_events();
  void fail(Error error);
  void cancel_all();
  void finish_whole(Step& step);
  void finish_failed(Step& step);
  void send_stream(Step& step);
  void send_head(Step& step);
  void probe(PeerState peer, Step& step);

  const CallEnvironment& environment_;
  PreparedCall prepared_;
  const WireOptions wire_;
  const std::vector<HttpHeader> extra_headers_;
  TenantBoard::Ticket ticket_;
  const std::shared_ptr<EventQueue> queue_;
  const Tick started_at_;

  std::vector<std::optional<RequestId>>
      running_;           // per engine request; empty = not submitted or ended
  std::size_t next_ = 0;  // first request not submitted yet
  std::size_t in_flight_ = 0;
  std::string outgoing_;        // SSE text that is not framed yet
  std::optional<Error> error_;  // the call ends with this
  bool head_sent_ = false;
  Tick last_sent_at_ = 0;
  std::optional<Tick> closed_since_;  // when the client's sending side was seen closed
  bool probed_ = false;
};

}  // namespace refrain::serve
