// See call.h.
#include "serve/call.h"

#include <utility>

#include "base/str.h"
#include "serve/error_shape.h"
#include "serve/sse.h"

namespace refrain::serve {

using engine::TokenEvent;

Call::Call(const CallEnvironment& environment, PreparedCall prepared, const WireOptions& wire,
           std::vector<HttpHeader> extra_headers, TenantBoard::Ticket ticket,
           std::function<void()> notify)
    : environment_(environment),
      prepared_(std::move(prepared)),
      wire_(wire),
      extra_headers_(std::move(extra_headers)),
      ticket_(std::move(ticket)),
      queue_(std::make_shared<EventQueue>(std::move(notify))),
      started_at_(environment.clock->now()),
      running_(prepared_.requests.size()),
      last_sent_at_(started_at_) {}

Call::~Call() {
  queue_->close();
  cancel_all();
}

void Call::cancel_all() {
  for (std::optional<RequestId>& id : running_) {
    if (id.has_value()) environment_.engine->cancel(*id);
    id.reset();
  }
  in_flight_ = 0;
}

void Call::fail(Error error) {
  if (error_.has_value()) return;
  error_ = std::move(error);
  cancel_all();
}

void Call::submit_more() {
  while (!error_.has_value() && next_ < prepared_.requests.size() && in_flight_ < kMaxInFlight) {
    const auto prompt = static_cast<std::uint32_t>(next_);
    // With requests of ours at work, a full queue only means trying again as they go on; hence the
    // copy.
    const bool can_wait = in_flight_ > 0;
    const Result<RequestId> id = environment_.engine->submit(
        prepared_.requests[next_], std::make_shared<EventStream>(queue_, prompt),
        can_wait ? engine::WhenFull::kTryLater : engine::WhenFull::kReject);
    if (!id.ok()) {
      if (id.error().code != Code::kQueueFull || !can_wait) fail(id.error());
      return;
    }
    running_[next_] = *id;
    prepared_.requests[next_] = {};
    ++next_;
    ++in_flight_;
  }
}

void Call::take_events() {
  for (QueuedEvent& queued : queue_->take()) {
    if (error_.has_value()) return;
    ticket_.release();  // it does not wait any more
    const TokenEvent::Kind kind = queued.event.kind;
    if (kind == TokenEvent::Kind::kError) {
      running_[queued.prompt].reset();
      fail(std::move(queued.event.error));
      return;
    }
    if (kind != TokenEvent::Kind::kPromptProgress && prepared_.when_answering)
      std::exchange(prepared_.when_answering, nullptr)();
    if (kind == TokenEvent::Kind::kFinished) {
      running_[queued.prompt].reset();
      --in_flight_;
    }
    outgoing_ += prepared_.reply->take(queued.prompt, std::move(queued.event));
  }
}

Call::Step Call::step(PeerState peer) {
  Step step;
  step.keep_alive = wire_.keep_alive;
  if (peer == PeerState::kGone) {
    cancel_all();
    step.done = true;
    step.keep_alive = false;
    return step;
  }
  if (environment_.phase->load() == ServePhase::kAborting)
    fail(Error{Code::kUnavailable, "the server is shutting down", "send the request again later"});
  take_events();
  submit_more();
  const bool finished = in_flight_ == 0 && next_ == prepared_.requests.size();
  if (error_.has_value()) {
    finish_failed(step);
  } else if (finished && !prepared_.stream) {
    finish_whole(step);
  } else {
    if (finished) outgoing_ += prepared_.reply->finish();
    if (prepared_.stream) send_stream(step);
    if (finished) {
      step.bytes += stream_end(wire_);
      step.done = true;
      step.status = 200;
      step.keep_alive = wire_.keep_alive && !wire_.http_1_0;
    } else {
      probe(peer, step);
    }
  }
  if (!step.bytes.empty()) last_sent_at_ = environment_.clock->now();
  return step;
}

void Call::finish_whole(Step& step) {
  HttpResponse response;
  response.body = prepared_.reply->finish();
  response.headers = extra_headers_;
  response.headers.push_back({"X-Request-Id", prepared_.id});
  step.bytes = serialize(response, wire_);
  step.done = true;
  step.status = response.status;
}

void Call::finish_failed(Step& step) {
  step.done = true;
  step.status = error_shape(error_->code).status;
  if (!head_sent_) {
    HttpResponse response = error_response(*error_, environment_.engine->retry_after_s());
    response.headers.insert(response.headers.end(), extra_headers_.begin(), extra_headers_.end());
    response.headers.push_back({"X-Request-Id", prepared_.id});
    step.bytes = serialize(response, wire_);
    return;
  }
  // The status is long gone; what is left is an error event, and no [DONE] that would hide it.
  step.bytes = stream_piece(outgoing_ + sse_event(error_body(*error_)), wire_) + stream_end(wire_);
  step.keep_alive = wire_.keep_alive && !wire_.http_1_0;
}

void Call::send_head(Step& step) {
  if (head_sent_) return;
  head_sent_ = true;
  HttpResponse response;
  response.content_type = "text/event-stream; charset=utf-8";
  response.headers = extra_headers_;
  response.headers.push_back({"Cache-Control", "no-cache"});
  response.headers.push_back({"X-Accel-Buffering", "no"});
  response.headers.push_back({"X-Request-Id", prepared_.id});
  step.bytes = serialize_stream_head(response, wire_);
}

void Call::send_stream(Step& step) {
  const Tick now = environment_.clock->now();
  if (!outgoing_.empty()) {
    send_head(step);
    step.bytes += stream_piece(outgoing_, wire_);
    outgoing_.clear();
  } else if (!head_sent_ && now - started_at_ >= kHeadDelay) {
    send_head(step);
    step.bytes += stream_piece(sse_comment("waiting"), wire_);
  } else if (head_sent_ && now - last_sent_at_ >= environment_.comment_interval) {
    step.bytes += stream_piece(sse_comment("waiting"), wire_);
  }
}

void Call::probe(PeerState peer, Step& step) {
  if (peer != PeerState::kSendingClosed || probed_) return;
  const Tick now = environment_.clock->now();
  if (!closed_since_.has_value()) closed_since_ = now;
  if (now - *closed_since_ < kProbeDelay) return;
  probed_ = true;
  if (prepared_.stream) {
    send_head(step);
    step.bytes += stream_piece(sse_comment("waiting"), wire_);
  } else if (!wire_.http_1_0) {
    step.bytes += kContinue;
  }
}

}  // namespace refrain::serve
