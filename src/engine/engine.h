// Engine: the one thread that owns ledger, arena, executor and running sequences. Callers submit
// requests through a bounded inbox and get events on their OutputStream.
//
// One step (engine.cpp): take inbox -> admit waiting -> schedule a batch -> run -> sample -> emit.
//
// start()/stop() and the public calls below: any thread. Everything private: engine thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "capacity/read_cost.h"
#include "engine/context_trim.h"
#include "engine/isolation.h"
#include "engine/kv_report.h"
#include "engine/request.h"
#include "kv/ledger.h"
#include "metrics/registry.h"
#include "model/executor.h"
#include "model/probe.h"
#include "model/reuse_gate.h"
#include "model/splice.h"
#include "text/tokenizer.h"

namespace refrain::engine {

struct EngineOptions {
  std::uint32_t step_token_budget = 256;     // rows per step; prefill is chunked to fit
  std::uint32_t max_running = 64;            // sequences decoded together
  std::uint32_t max_waiting = 256;           // bounded queue; beyond it submit() says kQueueFull
  std::uint32_t max_waiting_per_tenant = 0;  // 0 = max_waiting
  std::uint32_t max_context = 0;             // prompt + generated tokens per request
  IsolationOptions isolation = {};
  bool idle_recompute = true;      // approximate answers are computed exactly when nobody waits
  std::uint64_t default_seed = 0;  // seeds of requests without one derive from it and a counter
};

// What brings text to other places and judges it. The parts outlive the engine.
struct ReuseParts {
  model::Splice* splice = nullptr;
  const model::ProbeReader* probes = nullptr;
  const model::ReuseGate* gate = nullptr;  // null: not calibrated, so ReuseMode::kRepair is exact
  std::uint32_t first_mass_layer = 0;      // where a question is asked what it attends to
};

// What the engine is made of; composed in cli/, outlives the engine.
struct EngineParts {
  const text::Tokenizer* tokenizer = nullptr;
  model::Executor* executor = nullptr;
  kv::Ledger* ledger = nullptr;
  metrics::Registry* metrics = nullptr;
  const Clock* clock = nullptr;
  // Without a splice only exact prefixes are reused, whatever a request asks for.
  ReuseParts reuse = {};
  // Without an arena no context is trimmed.
  TrimParts trim = {};
  std::uint32_t vocabulary_size = 0;
  std::uint32_t embedding_dim = 0;
  Hash128 cache_root{};  // hash of model fingerprint, rope, KV format, numerics
  // What a step reads; for reports. All zero: bytes are not reported.
  capacity::ReadCost read_cost = {};
  double attention_unit_tokens = 0;  // see StepRules
};

struct EngineSnapshot {  // copied out after each step, read by /health, /metrics, shutdown
  std::uint32_t running = 0;
  std::uint32_t waiting = 0;
  kv::LedgerCounts blocks;
  kv::LedgerTotals totals;
  std::uint64_t generated_tokens = 0;
  std::uint64_t computed_prompt_tokens = 0;
  std::uint64_t steps = 0;
  std::uint64_t idle_tokens = 0;  // computed exactly while nobody waited
  std::uint64_t audits = 0;       // answers over approximate context compared with exact ones
  bool promise_broken = false;    // they were too far off: approximate reuse has ended
};

// What a full queue means to the caller of submit().
enum class WhenFull {
  kReject,   // the request is refused, and counted so
  kTryLater  // the caller holds on to it and submits it again; it counts once, when that is decided
};

class Engine {
 public:
  Engine(const EngineParts& parts, const EngineOptions& options);
  ~Engine();  // stop(): running requests end as cancelled

  void start();  // begins the engine thread
  // Accepts or refuses at once: kQueueFull, kUnavailable (draining), kContextLength (the
  // prompt alone does not fit; both numbers in the message), kInvalidArgument. max_tokens is
  // lowered to what fits behind the prompt. Events then come on `stream`, which is kept alive until
  // its last event.
  Result<RequestId> submit(GenerateRequest request, std::shared_ptr<OutputStream> stream,
                           WhenFull when_full = WhenFull::kReject);
  // The client went away: work stops at the next step; harmless for unknown or finished ids.
  void cancel(RequestId id);
  // Accepts nothing new; running and waiting requests go on. drained() once none is left.
  void drain();
  bool drained() const;
  void stop();                      // cancels all, ends the thread; idempotent
  EngineSnapshot snapshot() const;  // never waits for a running step
  KvReport kv_report() const;       // as of the last step; never waits for a running one
  // Rough seconds until a queued request would start; for Retry-After.
  double estimated_wait_s() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace refrain::engine
