#include "engine/engine.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/engine_impl.h"

namespace refrain::engine {
namespace {

// How often an idle engine checks the whole ledger: each time in debug builds.
#ifdef NDEBUG
constexpr std::uint64_t kVerifyEvery = 64;
#else
constexpr std::uint64_t kVerifyEvery = 1;
#endif

RequestLimits limits_of(const EngineParts& parts, const EngineOptions& options) {
  const kv::LedgerOptions& pool = parts.ledger->options();
  RequestLimits limits{parts.vocabulary_size, options.max_context,
                       pool.block_count * pool.block_size};
  if (parts.trim.arena != nullptr) {
    limits.trim = parts.trim.bounds();
    limits.can_look = parts.trim.can_look;
  }
  return limits;
}

}  // namespace

Engine::Impl::Impl(const EngineParts& parts, const EngineOptions& options)
    : parts_(parts),
      options_(options),
      limits_(limits_of(parts, options)),
      ledger_(*parts.ledger),
      metrics_(parts.metrics),
      inbox_(options.max_waiting, options.max_waiting_per_tenant == 0
                                      ? options.max_waiting
                                      : options.max_waiting_per_tenant),
      isolation_(options.isolation),
      scheduler_({.budget = options.step_token_budget,
                  .long_percent = options.isolation.step_percent,
                  .attention_unit_tokens = parts.attention_unit_tokens}),
      builder_(ledger_, parts.reuse.first_mass_layer),
      idle_(ledger_, *parts.executor, parts_.trim, scores_) {
  CHECK(options.step_token_budget > 0 && options.max_running > 0, "an engine that can do nothing");
  CHECK(options.step_token_budget <= parts.executor->max_batch_rows(),
        "steps of more rows than the executor takes");
  publish_snapshot();
}

Engine::Impl::~Impl() {
  stop();
}

// ---- any thread

void Engine::Impl::start() {
  std::lock_guard lock(life_mutex_);
  CHECK(!thread_.joinable() && !stopped_, "an engine starts once");
  thread_ = std::thread([this] { run_thread(); });
}

void Engine::Impl::stop() {
  std::lock_guard lock(life_mutex_);
  if (stopped_) return;
  stopped_ = true;
  inbox_.stop();
  if (thread_.joinable()) {
    thread_.join();
  } else {
    run_thread();  // never started: what was submitted still gets its last event
  }
}

Result<RequestId> Engine::Impl::submit(GenerateRequest request,
                                       std::shared_ptr<OutputStream> stream, WhenFull when_full) {
  Result<RequestId> id = [&]() -> Result<RequestId> {
    RETURN_IF_ERROR(check_and_fit(request, limits_));
    return inbox_.submit(Incoming{std::move(request), std::move(stream), parts_.clock->now()});
  }();
  if (!id && id.error().code == Code::kQueueFull && when_full == WhenFull::kTryLater) return id;
  metrics_.count_received();
  if (!id) metrics_.count_rejected();
  return id;
}

EngineSnapshot Engine::Impl::snapshot() const {
  EngineSnapshot copy;
  {
    std::lock_guard lock(snapshot_mutex_);
    copy = snapshot_;
  }
  copy.waiting = inbox_.waiting();
  return copy;
}

double Engine::Impl::estimated_wait_s() const {
  double gap_s = 1.0;
  {
    std::lock_guard lock(snapshot_mutex_);
    gap_s = snapshot_end_gap_s_;
  }
  constexpr double kShortest = 1.0;
  constexpr double kLongest = 600.0;
  return std::clamp(gap_s * (inbox_.waiting() + 1), kShortest, kLongest);
}

// ---- the engine thread

void Engine::Impl::run_thread() {
  while (!stop_requested_) {
    step();
    if (requests_.empty() && !stop_requested_) rest();
  }
  while (!requests_.empty()) end_open_choices(*requests_.begin()->second, FinishReason::kCancelled);
  announce_ends();
  idle_count_ = 0;
  verify_ledger();
}

void Engine::Impl::step() {
  take_mail();
  if (stop_requested_) return;
  expire_deadlines();
  admit_waiting();
  if (schedule_rows()) {
    run_batch();
  }
  trim_contexts();
  announce_ends();
}

// Counters and snapshot first: whoever has seen the last event of a request finds it counted.
void Engine::Impl::announce_ends() {
  publish_snapshot();
  for (const auto& request : ended_) request->send_last_event();
  ended_.clear();
}

// Nobody waits: look after the books, compute exactly what was approximate, then sleep until there
// is mail.
void Engine::Impl::rest() {
  last_end_at_ = -1;
  verify_ledger();
  if (idle_.pending()) work_idle();
  inbox_.wait();
}

void Engine::Impl::work_idle() {
  while (idle_.pending() && !inbox_.has_mail()) {
    now_ = parts_.clock->now();
    const Result<std::optional<Audit>> audit =
        idle_.step(static_cast<SequenceId>(next_sequence_++), now_);
    if (!audit.ok()) {
      log_warn(str_cat("computing an approximate answer exactly failed: ", audit.error().message));
    } else if (*audit) {
      take_audit(**audit);
    }
    metrics_.update_idle(idle_.computed_tokens());
  }
  idle_.pause(now_);
  publish_snapshot();
}

void Engine::Impl::take_audit(const Audit& audit) {
  const bool was_broken = audits_.broken();
  audits_.add(audit);
  metrics_.count_audit(audit, audits_.broken());
  if (audits_.broken() && !was_broken)
    log_error(
        "approximate answers were further off than promised: from now on only exact context is "
        "reused; run `refrain calibrate` anew and start again");
}

bool Engine::Impl::schedule_rows() {
  std::vector<Runnable> runnables;
  runnables.reserve(running_.size());
  for (const Running& entry : running_) {
    const Sequence& sequence = *entry.sequence;
    runnables.push_back(Runnable{
        .pending_rows = sequence.pending(),
        .depth = sequence.computed(),
        .decoding = sequence.decoding() && sequence.pending() == 1,
        .scores_prompt = entry.request->request().prompt_logprobs && sequence.choice() == 0,
        .is_long = sequence.is_long,
        .throttled = entry.request->throttled(),
        .age_order = entry.age_order,
        .last_turn = sequence.last_turn});
  }
  scheduled_.clear();
  for (const Share& share : scheduler_.next(runnables)) {
    const Running& entry = running_[share.runnable];
    entry.sequence->last_turn = ++turns_;
    scheduled_.push_back(ScheduledSequence{
        .request = entry.request, .sequence = entry.sequence, .row_count = share.rows});
  }
  return !scheduled_.empty();
}

void Engine::Impl::run_batch() {
  ++steps_;
  for (ScheduledSequence& entry : scheduled_) entry.request->note_first_step(now_);
  builder_.build(scheduled_, now_, batch_);
  note_kv_use();
  raise_alarms();
  note_step_reads();
  if (admitted_unreported_) publish_kv_report();  // a first step may take long
  Result<void> ran = parts_.executor->run(batch_, output_);
  const Tick began_at = std::exchange(now_, parts_.clock->now());
  metrics_.count_step(now_ - began_at);
  if (ran) {
    note_decode_step(now_ - began_at);
    take_results();
  } else {
    fail_batch(ran.error());
  }
}

void Engine::Impl::publish_snapshot() {
  const kv::LedgerCounts counts = ledger_.counts();
  metrics_.update_ledger(ledger_.totals(), counts);
  metrics_.set_load(static_cast<std::uint32_t>(running_.size()), inbox_.waiting());
  publish_kv_report();
  publish_classes();
  std::lock_guard lock(snapshot_mutex_);
  snapshot_.running = static_cast<std::uint32_t>(running_.size());
  snapshot_.blocks = counts;
  snapshot_.totals = ledger_.totals();
  snapshot_.generated_tokens = generated_tokens_;
  snapshot_.computed_prompt_tokens = computed_prompt_tokens_;
  snapshot_.steps = steps_;
  snapshot_.idle_tokens = idle_.computed_tokens();
  snapshot_.audits = audits_.count();
  snapshot_.promise_broken = audits_.broken();
  snapshot_end_gap_s_ = end_gap_s_;
}

void Engine::Impl::verify_ledger() {
  if (idle_count_++ % kVerifyEvery != 0) return;
  const std::string broken = ledger_.verify();
  CHECK(broken.empty(), str_cat("the ledger is broken: ", broken));
  CHECK(ledger_.counts().sequences == 0, "blocks are held although nothing runs");
}

// ---- the public face

Engine::Engine(const EngineParts& parts, const EngineOptions& options)
    : impl_(std::make_unique<Impl>(parts, options)) {}
Engine::~Engine() = default;
void Engine::start() {
  impl_->start();
}
Result<RequestId> Engine::submit(GenerateRequest request, std::shared_ptr<OutputStream> stream,
                                 WhenFull when_full) {
  return impl_->submit(std::move(request), std::move(stream), when_full);
}
void Engine::cancel(RequestId id) {
  impl_->cancel(id);
}
void Engine::drain() {
  impl_->drain();
}
bool Engine::drained() const {
  return impl_->drained();
}
void Engine::stop() {
  impl_->stop();
}
EngineSnapshot Engine::snapshot() const {
  return impl_->snapshot();
}
KvReport Engine::kv_report() const {
  return impl_->kv_report();
}
double Engine::estimated_wait_s() const {
  return impl_->estimated_wait_s();
}

}  // namespace refrain::engine
