// Call: what is written when, with a scripted engine and a clock that only the test moves.
#include "serve/call.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "serve/completion_reply.h"
#include "serve/embeddings.h"

namespace refrain::serve {
namespace {

using engine::TokenEvent;

class ScriptedEngine final : public Submitter {
 public:
  Result<RequestId> submit(engine::GenerateRequest /*request*/,
                           std::shared_ptr<engine::OutputStream> stream,
                           engine::WhenFull when_full) override {
    last_when_full = when_full;
    if (refuse_with.has_value()) return *refuse_with;
    const RequestId id{++last_};
    streams[last_] = std::move(stream);
    return id;
  }
  void cancel(RequestId id) override { cancelled.push_back(to_int(id)); }
  double retry_after_s() const override { return 3; }

  void text(std::uint64_t id, const std::string& text) {
    TokenEvent event;
    event.text = text;
    streams.at(id)->on_event(event);
  }
  void finish(std::uint64_t id) {
    TokenEvent event;
    event.kind = TokenEvent::Kind::kFinished;
    streams.at(id)->on_event(event);
  }
  void fail(std::uint64_t id, Code code) {
    TokenEvent event;
    event.kind = TokenEvent::Kind::kError;
    event.error = Error{code, "it failed"};
    streams.at(id)->on_event(event);
  }

  engine::WhenFull last_when_full = engine::WhenFull::kReject;
  std::optional<Error> refuse_with;
  std::map<std::uint64_t, std::shared_ptr<engine::OutputStream>> streams;
  std::vector<std::uint64_t> cancelled;

 private:
  std::uint64_t last_ = 0;
};

class CallTest : public testing::Test {
 protected:
  CallTest() {
    environment_.engine = &engine_;
    environment_.clock = &clock_;
    environment_.phase = &phase_;
  }

  std::unique_ptr<Call> make(bool stream, std::size_t prompts = 1, WireOptions wire = {}) {
    PreparedCall prepared;
    prepared.id = "cmpl-1";
    prepared.stream = stream;
    prepared.requests.resize(prompts);
    CompletionReplyOptions options;
    options.frame.stream = stream;
    options.prompt_count = static_cast<std::uint32_t>(prompts);
    prepared.reply = std::make_unique<CompletionReply>(options);
    return std::make_unique<Call>(environment_, std::move(prepared), wire,
                                  std::vector<HttpHeader>{{"X-Test", "1"}}, TenantBoard::Ticket(),
                                  [this] { ++notified_; });
  }

  ScriptedEngine engine_;
  ManualClock clock_;
  std::atomic<ServePhase> phase_{ServePhase::kServing};
  CallEnvironment environment_;
  int notified_ = 0;
};

TEST_F(CallTest, whole_answer_is_written_once_all_is_finished) {
  auto call = make(false);
  EXPECT_TRUE(call->step(PeerState::kOpen).bytes.empty());
  engine_.text(1, "hi");
  EXPECT_EQ(notified_, 1);
  EXPECT_FALSE(call->step(PeerState::kOpen).done);
  engine_.finish(1);
  const Call::Step step = call->step(PeerState::kOpen);
  EXPECT_TRUE(step.done && step.keep_alive);
  EXPECT_EQ(step.status, 200U);
  EXPECT_TRUE(step.bytes.starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_NE(step.bytes.find("X-Test: 1\r\n"), std::string::npos);
  EXPECT_NE(step.bytes.find("\"text\":\"hi\""), std::string::npos);
  EXPECT_TRUE(engine_.cancelled.empty());
}

TEST_F(CallTest, refusal_by_the_engine_keeps_its_status_also_for_streams) {  // O-14
  for (const bool stream : {false, true}) {
    engine_.refuse_with = Error{Code::kQueueFull, "full"};
    const Call::Step step = make(stream)->step(PeerState::kOpen);
    EXPECT_TRUE(step.done);
    EXPECT_TRUE(step.bytes.starts_with("HTTP/1.1 429 "));
    EXPECT_EQ(engine_.last_when_full, engine::WhenFull::kReject);
    EXPECT_NE(step.bytes.find("Retry-After: 3\r\n"), std::string::npos);
    EXPECT_NE(step.bytes.find("application/json"), std::string::npos);
  }
}

TEST_F(CallTest, failure_before_the_first_byte_of_a_stream_has_its_own_status) {
  auto call = make(true);
  call->step(PeerState::kOpen);
  engine_.fail(1, Code::kDeadline);
  EXPECT_TRUE(call->step(PeerState::kOpen).bytes.starts_with("HTTP/1.1 504 "));
}

TEST_F(CallTest, failure_inside_a_stream_is_an_error_event_and_the_end) {
  auto call = make(true);
  call->step(PeerState::kOpen);
  engine_.text(1, "a");
  EXPECT_TRUE(call->step(PeerState::kOpen).bytes.starts_with("HTTP/1.1 200 OK\r\n"));
  engine_.fail(1, Code::kInternal);
  const Call::Step step = call->step(PeerState::kOpen);
  EXPECT_TRUE(step.done);
  EXPECT_NE(step.bytes.find("data: {\"error\":"), std::string::npos);
  EXPECT_EQ(step.bytes.find("[DONE]"), std::string::npos);
  EXPECT_TRUE(step.bytes.ends_with("0\r\n\r\n"));
}

TEST_F(CallTest, stream_sends_comments_while_nothing_is_generated) {  // O-38
  auto call = make(true);
  EXPECT_TRUE(call->step(PeerState::kOpen).bytes.empty());
  clock_.advance(Call::kHeadDelay);
  const std::string head = call->step(PeerState::kOpen).bytes;
  EXPECT_NE(head.find("text/event-stream"), std::string::npos);
  EXPECT_NE(head.find("\r\n: waiting\n\n\r\n"), std::string::npos);
  EXPECT_TRUE(call->step(PeerState::kOpen).bytes.empty());
  clock_.advance(environment_.comment_interval);
  EXPECT_NE(call->step(PeerState::kOpen).bytes.find(": waiting"), std::string::npos);
}

TEST_F(CallTest, client_that_is_gone_is_cancelled) {  // O-21
  auto call = make(false, 3);
  call->step(PeerState::kOpen);
  const Call::Step step = call->step(PeerState::kGone);
  EXPECT_TRUE(step.done);
  EXPECT_FALSE(step.keep_alive);
  EXPECT_TRUE(step.bytes.empty());
  EXPECT_EQ(engine_.cancelled, (std::vector<std::uint64_t>{1, 2, 3}));
}

TEST_F(CallTest, half_closed_client_is_asked_once_and_still_gets_its_answer) {  // O-21 (e)
  auto call = make(false);
  EXPECT_TRUE(call->step(PeerState::kSendingClosed).bytes.empty());
  clock_.advance(Call::kProbeDelay);
  EXPECT_EQ(call->step(PeerState::kSendingClosed).bytes, kContinue);
  clock_.advance(Call::kProbeDelay);
  EXPECT_TRUE(call->step(PeerState::kSendingClosed).bytes.empty());
  engine_.text(1, "hi");
  engine_.finish(1);
  EXPECT_TRUE(call->step(PeerState::kSendingClosed).bytes.starts_with("HTTP/1.1 200 OK"));
  // HTTP/1.0 knows no interim answers.
  auto old = make(false, 1, {.keep_alive = false, .http_1_0 = true});
  old->step(PeerState::kSendingClosed);
  clock_.advance(Call::kProbeDelay);
  EXPECT_TRUE(old->step(PeerState::kSendingClosed).bytes.empty());
}

TEST_F(CallTest, destruction_cancels_and_later_events_are_harmless) {  // O-16
  auto call = make(true);
  call->step(PeerState::kOpen);
  call.reset();
  EXPECT_EQ(engine_.cancelled, (std::vector<std::uint64_t>{1}));
  engine_.text(1, "late");
  EXPECT_EQ(notified_, 0);
}

TEST_F(CallTest, many_prompts_run_a_few_at_a_time) {
  auto call = make(false, Call::kMaxInFlight + 2);
  call->step(PeerState::kOpen);
  EXPECT_EQ(engine_.streams.size(), Call::kMaxInFlight);
  engine_.refuse_with = Error{Code::kQueueFull, "full"};
  engine_.finish(1);
  EXPECT_FALSE(call->step(PeerState::kOpen).done);  // tried again later
  EXPECT_EQ(engine_.last_when_full, engine::WhenFull::kTryLater);
  engine_.refuse_with.reset();
  call->step(PeerState::kOpen);
  EXPECT_EQ(engine_.streams.size(), Call::kMaxInFlight + 1);
  for (std::uint64_t id = 2; id <= Call::kMaxInFlight + 1; ++id) engine_.finish(id);
  EXPECT_FALSE(call->step(PeerState::kOpen).done);
  engine_.finish(Call::kMaxInFlight + 2);
  EXPECT_TRUE(call->step(PeerState::kOpen).done);
  EXPECT_TRUE(engine_.cancelled.empty());
}

TEST_F(CallTest, shutdown_after_the_grace_time_ends_calls_with_an_error) {  // O-40
  auto whole = make(false);
  auto stream = make(true);
  whole->step(PeerState::kOpen);
  stream->step(PeerState::kOpen);
  engine_.text(2, "a");
  stream->step(PeerState::kOpen);
  phase_ = ServePhase::kDraining;
  EXPECT_FALSE(stream->step(PeerState::kOpen).done);
  phase_ = ServePhase::kAborting;
  EXPECT_TRUE(whole->step(PeerState::kOpen).bytes.starts_with("HTTP/1.1 503 "));
  EXPECT_NE(stream->step(PeerState::kOpen).bytes.find("data: {\"error\":"), std::string::npos);
  EXPECT_EQ(engine_.cancelled.size(), 2U);
}

}  // namespace
}  // namespace refrain::serve
