// A trial's turns through the real engine, in waves of concurrent requests over one ledger that is
// often too small for all of them. Each wave has an engine of its own that is started when all its
// requests are in, and cancellations come from the engine thread itself, so a trial runs the same
// way every time. Main thread; streams: engine thread.
#include <algorithm>
#include <latch>
#include <optional>

#include "base/clock.h"
#include "base/str.h"
#include "cli/exact_host.h"
#include "cli/exact_run.h"
#include "engine/engine.h"
#include "metrics/registry.h"

namespace refrain::cli {
namespace {

// Keeps what one request got. Read after the engine has stopped.
class TrialStream final : public engine::OutputStream {
 public:
  // Cancels its own request with the first event behind `cancel_after` tokens, if that is set.
  TrialStream(engine::Engine& engine, std::latch& ends, std::optional<std::size_t> cancel_after)
      : engine_(engine), ends_(ends), cancel_after_(cancel_after) {}

  void on_event(engine::TokenEvent event) override {
    using Kind = engine::TokenEvent::Kind;
    if (event.kind == Kind::kText) {
      if (event.choice >= replies_.size()) replies_.resize(event.choice + 1);
      TokenList& reply = replies_[event.choice];
      reply.insert(reply.end(), event.tokens.begin(), event.tokens.end());
      if (cancel_after_ && reply.size() >= *cancel_after_) engine_.cancel(id);
    }
    if (event.kind != Kind::kFinished && event.kind != Kind::kError) return;
    if (event.kind == Kind::kError) error_ = event.error.message;
    cancelled_ = event.finish_reason == engine::FinishReason::kCancelled;
    ends_.count_down();
  }

  RequestId id{};  // set before the engine starts
  bool cancelled() const { return cancelled_; }
  const std::string& error() const { return error_; }
  TokenList reply(std::size_t choice) const {
    return choice < replies_.size() ? replies_[choice] : TokenList{};
  }

 private:
  engine::Engine& engine_;
  std::latch& ends_;
  const std::optional<std::size_t> cancel_after_;
  std::vector<TokenList> replies_;  // by choice
  std::string error_;
  bool cancelled_ = false;
};

struct Sent {
  std::size_t turn = 0;
  std::uint32_t choice_count = 1;
  std::shared_ptr<TrialStream> stream;
};

class EngineRun {
 public:
  EngineRun(const ExactSubject& subject, const TrialPlan& plan, const ReferenceBook& book,
            Findings& findings)
      : subject_(subject), book_(book), findings_(findings), rng_(plan.schedule_seed) {}

  Result<void> run() {
    ++findings_.coverage.engine_trials;
    ASSIGN_OR_RETURN(host_, TrialHost::create(subject_, book_, rng_, findings_));
    for (std::size_t done = 0; done < book_.turns().size();) {
      const std::size_t count =
          std::min<std::size_t>(1 + rng_.below(4), book_.turns().size() - done);
      RETURN_IF_ERROR(wave(done, done + count));
      done += count;
      RETURN_IF_ERROR(disturb());
    }
    host_->close();
    return {};
  }

 private:
  Result<void> wave(std::size_t begin, std::size_t end);
  engine::EngineParts parts();
  engine::GenerateRequest request(std::size_t turn);
  Result<void> disturb();
  void check(const Sent& sent);

  const ExactSubject& subject_;
  const ReferenceBook& book_;
  Findings& findings_;
  Rng rng_;
  ManualClock clock_;
  metrics::Registry metrics_;
  std::unique_ptr<TrialHost> host_;
};

engine::EngineParts EngineRun::parts() {
  const model::ModelShape& shape = subject_.model->shape();
  return {.tokenizer = subject_.tokenizer,
          .executor = &host_->executor(),
          .ledger = &host_->ledger(),
          .metrics = &metrics_,
          .clock = &clock_,
          .vocabulary_size = shape.vocabulary_size,
          .embedding_dim = shape.embedding_dim,
          .cache_root = {}};
}

engine::GenerateRequest EngineRun::request(std::size_t turn) {
  const ReferenceBook::Turn& known = book_.turns()[turn];
  engine::GenerateRequest request;
  request.prompt.assign(known.tokens.begin(), known.tokens.begin() + known.prompt_length);
  request.max_tokens = static_cast<std::uint32_t>(known.tokens.size()) - known.prompt_length;
  request.sampling.temperature = 0.0F;
  request.ignore_eos = true;
  request.use_cache = rng_.below(8) != 0;
  request.prompt_logprobs = rng_.below(6) == 0;  // logits of every row of the prompt
  if (request.max_tokens > 0 && rng_.below(4) == 0) request.choice_count = 2;
  return request;
}

// Turns [begin, end) together, and sometimes one more time each, to be cancelled on the way.
Result<void> EngineRun::wave(std::size_t begin, std::size_t end) {
  std::vector<std::size_t> turns;
  for (std::size_t turn = begin; turn < end; ++turn) turns.push_back(turn);
  const std::size_t to_finish = turns.size();
  if (rng_.below(3) == 0) turns.push_back(begin);
  std::latch ends(static_cast<std::ptrdiff_t>(turns.size()));
  const std::uint32_t most_rows =
      rng_.below(2) == 0 ? host_->settings().max_batch_rows : std::uint32_t{8};
  engine::Engine engine(parts(),
                        {.step_token_budget = 1 + static_cast<std::uint32_t>(rng_.below(most_rows)),
                         .max_running = 1 + static_cast<std::uint32_t>(rng_.below(6))});
  std::vector<Sent> all;
  for (const std::size_t turn : turns) {
    std::optional<std::size_t> cancel_after;
    if (all.size() >= to_finish) cancel_after = 1 + rng_.below(4);
    Sent sent{.turn = turn, .stream = std::make_shared<TrialStream>(engine, ends, cancel_after)};
    engine::GenerateRequest next = request(turn);
    sent.choice_count = next.choice_count;
    ASSIGN_OR_RETURN(sent.stream->id, engine.submit(std::move(next), sent.stream));
    all.push_back(std::move(sent));
  }
  engine.start();
  ends.wait();
  engine.stop();
  for (const Sent& sent : all) check(sent);
  return {};
}

void EngineRun::check(const Sent& sent) {
  const auto fault = [&](const std::string& what) {
    findings_.fault(str_cat("turn ", sent.turn, " through the engine: ", what));
  };
  if (!sent.stream->error().empty()) return fault(sent.stream->error());
  if (sent.stream->cancelled()) return;
  const ReferenceBook::Turn& turn = book_.turns()[sent.turn];
  const TokenList expected(turn.tokens.begin() + turn.prompt_length, turn.tokens.end());
  for (std::uint32_t choice = 0; choice < sent.choice_count; ++choice)
    if (sent.stream->reply(choice) != expected)
      fault(str_cat("the reply of choice ", choice, " has other tokens than that of a cold run"));
}

Result<void> EngineRun::disturb() {
  if (rng_.below(8) == 0) host_->ledger().drop_all();
  if (host_->settings().threads > 1 || rng_.below(4) == 0)
    RETURN_IF_ERROR(host_->replace_executor());
  if (rng_.below(8) != 0) return {};
  ++findings_.coverage.restarts;
  host_->close();
  ASSIGN_OR_RETURN(host_, TrialHost::create(subject_, book_, rng_, findings_));
  return {};
}

}  // namespace

Result<void> run_through_engine(const ExactSubject& subject, const TrialPlan& plan,
                                const ReferenceBook& book, Findings& findings) {
  return EngineRun(subject, plan, book, findings).run();
}

}  // namespace refrain::cli
