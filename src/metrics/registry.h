// Registry: all metrics of the process, made from one table (metrics_table.cpp): name, kind, unit,
// help, labels. Exposition through prometheus-cpp (registry.cpp only). Any thread; updates are
// atomic and never wait for the engine. A metric that is not in the table does not exist: the enum
// is the key.
//
//   registry.add(Metric::kPromptTokens, 120);
//   registry.observe(Metric::kTimeToFirstToken, 0.25);
//   registry.set(Metric::kRequestsRunning, 3);
//   registry.add_labeled(Metric::kRequestsFinished, "stop", 1);   // label values from a fixed set
//
// Every series of the table is there from the start with 0. A wrong kind, an unknown label value or
// a counter that falls is a bug of ours (CHECK); a value that is not finite is dropped, because one
// NaN would spoil sums for good.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace refrain::metrics {

enum class Metric {
  // counters                                 refrain:NAME
  kPromptTokens,          // prompt_tokens_total
  kPromptTokensCached,    // prompt_tokens_cached_total
  kPromptTokensMoved,     // prompt_tokens_moved_total
  kPromptTokensRepaired,  // prompt_tokens_repaired_total
  kPromptTokensComputed,  // request_prefill_kv_computed_tokens_total
  kPromptTokensBySource,  // prompt_tokens_by_source_total{source=local_compute|local_cache_hit|
                          //                                      local_cache_moved}
  kGenerationTokens,      // generation_tokens_total
  kPrefixCacheQueries,    // prefix_cache_queries_total (tokens)
  kPrefixCacheHits,       // prefix_cache_hits_total (tokens)
  kPrefixCacheEvictions,  // prefix_cache_evicted_blocks_total
  kRequestsFinished,  // request_success_total{finished_reason=stop|length|abort|error|deadline|rejected}
  kRequestsReceived,  // requests_received_total
  kHttpResponses,     // http_responses_total{status=1xx|2xx|3xx|4xx|5xx}
  kEngineSteps,       // engine_steps_total
  kMissReasons,   // prefix_cache_miss_reason_total{reason=none|cold|diverged|ended|short|disabled}
  kReuseRefused,  // reuse_refused_total{reason=uncalibrated|divergence|near_tie|no_room|unsupported}
  kReuseAudits,   // reuse_audits_total{result=agree|differ}
  kIdleTokens,    // idle_computed_tokens_total
  kContextTrims,          // context_trims_total
  kContextTokensDropped,  // context_tokens_dropped_total
  kContextSummaries,  // context_summaries_total{result=done|failed|refused}
  kContextTokensSummarized,
  kRequestAlarms,         // request_alarms_total{kind=kv|tpot}
  // gauges
  kRequestsRunning,       // num_requests_running
  kRequestsWaiting,       // num_requests_waiting
  kRequestsByClass,       // num_requests_running_by_class{class=short|long}
  kKvTokensByClass,       // kv_tokens_by_class{class=short|long}
  kRequestsThrottled,     // num_requests_throttled
  kKvCacheUsage,          // kv_cache_usage_perc (pinned / total, 0..1)
  kKvBlocks,              // kv_blocks{state=free|evictable|pinned|reserved}
  kKvBudgetBytes,         // kv_budget_bytes
  kWeightBytes,           // weight_bytes
  kKvBytesPerToken,       // kv_bytes_per_token
  kPrefillFlopPerToken,   // prefill_flop_per_token
  kFullContextSequences,  // full_context_sequences
  kReadBandwidth,         // read_bandwidth_bytes_per_second
  kLargestRequestKv,      // largest_request_kv_bytes
  kProcessResidentBytes,  // process_resident_memory_bytes
  kConnections,           // http_connections
  kReusePromiseBroken,    // reuse_promise_broken (0 or 1)
  // histograms
  kTimeToFirstToken,    // time_to_first_token_seconds
  kTimePerOutputToken,  // request_time_per_output_token_seconds
  kInterTokenLatency,   // inter_token_latency_seconds
  kRequestLatency,      // e2e_request_latency_seconds
  kQueueTime,           // request_queue_time_seconds
  kPrefillTime,         // request_prefill_time_seconds
  kDecodeTime,          // request_decode_time_seconds
  kStepTime,            // engine_step_seconds
  kPromptLength,        // request_prompt_tokens
  kGenerationLength,    // request_generation_tokens
  kRequestKvPeak,       // request_kv_peak_bytes
  kRequestKvMean,       // request_kv_mean_bytes
  kReuseDivergence,     // reuse_divergence_estimate_nats
  kAuditDivergence,     // reuse_audit_divergence_nats
  kCount
};

enum class MetricKind { kCounter, kGauge, kHistogram };

struct MetricInfo {
  Metric metric;
  MetricKind kind;
  std::string_view name;  // without the prefix "refrain:"
  std::string_view help;
  std::string_view label;  // "" = no label
  std::span<const std::string_view> label_values;
  std::span<const double> buckets;  // upper bounds, ascending; histograms only
};

constexpr std::string_view kMetricPrefix = "refrain:";

std::span<const MetricInfo> metrics_table();

class Registry {
 public:
  Registry();
  ~Registry();
  void add(Metric metric, double value);
  void add_labeled(Metric metric, std::string_view label_value, double value);
  void set(Metric metric, double value);
  void set_labeled(Metric metric, std::string_view label_value, double value);
  void observe(Metric metric, double value);
  double value(Metric metric, std::string_view label_value = {}) const;  // counters and gauges
  std::string expose() const;  // Prometheus text format 0.0.4

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace refrain::metrics
