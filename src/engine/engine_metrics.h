// EngineMetrics: feeds the metrics that belong to the engine. Cache figures come from the ledger's
// totals, prompt figures from the usage that each finished request reports, so that metrics, usage
// and ledger cannot drift apart. Engine thread, except count_received() and count_rejected().
//
// What is counted where:
//   prompt_tokens*, reuse_* usage of requests that ended with an answer (not aborted, not failed)
//   prefix_cache_*          every admitted prompt, once per request: further choices of a request
//                           find its own prompt, which is no hit
//   generation_tokens       every token when it is sampled
//   latency histograms      requests that ended by stop or length
//   request_kv_*            every request that was admitted, however it ended
//   reuse_audit*, idle_*    idle work, while it goes on
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "engine/active_request.h"
#include "engine/audit_book.h"
#include "kv/ledger.h"
#include "metrics/registry.h"

namespace refrain::engine {

class EngineMetrics {
 public:
  explicit EngineMetrics(metrics::Registry* registry) : registry_(registry) {}

  void count_received();  // any thread
  void count_rejected();  // any thread

  void count_step(Tick duration);
  void count_token(Tick gap_since_last, bool first);
  // A further choice of a running request was admitted.
  void count_sibling(std::uint32_t prompt_tokens, std::uint32_t cached_tokens);
  void count_end(const ActiveRequest& request, Tick now);
  // A request that held blocks has ended.
  void count_kv(double peak_bytes, double mean_bytes);
  // What count_end() does with the usage of a request that has an answer.
  void count_prompt(const Usage& usage);
  void update_ledger(const kv::LedgerTotals& totals, const kv::LedgerCounts& counts);
  // `broken`: the promise does not hold any more.
  void count_audit(const Audit& audit, bool broken);
  // `computed`: all tokens of idle work since the start.
  void update_idle(std::uint64_t computed);
  // `first`: its context had not been cut before.
  void count_dropped(std::uint32_t tokens, bool first);
  void set_load(std::uint32_t running, std::uint32_t waiting);
  void count_alarm(Alarm alarm);
  struct ClassLoad {  // of admitted requests
    std::uint32_t requests = 0;
    std::uint64_t kv_tokens = 0;
  };
  void set_classes(const ClassLoad& of_short, const ClassLoad& of_long, std::uint32_t throttled);

 private:
  metrics::Registry* registry_;        // may be null
  kv::LedgerTotals reported_;          // totals at the last update
  std::uint64_t sibling_queried_ = 0;  // since the last update
  std::uint64_t sibling_hit_ = 0;
  std::uint64_t idle_tokens_ = 0;  // reported so far
  double largest_kv_bytes_ = 0;
};

}  // namespace refrain::engine
