// The one table of metrics. Names follow what people already have on their dashboards. Constant
// data, any thread.
#include <array>

#include "metrics/registry.h"

namespace refrain::metrics {
namespace {

constexpr MetricKind kCounter = MetricKind::kCounter;
constexpr MetricKind kGauge = MetricKind::kGauge;
constexpr MetricKind kHistogram = MetricKind::kHistogram;

constexpr std::array<std::string_view, 3> kSources = {"local_compute", "local_cache_hit",
                                                      "local_cache_moved"};
constexpr std::array<std::string_view, 6> kFinishReasons = {"stop",  "length",   "abort",
                                                            "error", "deadline", "rejected"};
constexpr std::array<std::string_view, 5> kStatusClasses = {"1xx", "2xx", "3xx", "4xx", "5xx"};
constexpr std::array<std::string_view, 6> kMissReasonNames = {"none",  "cold",  "diverged",
                                                              "ended", "short", "disabled"};
constexpr std::array<std::string_view, 5> kRefusalReasons = {"uncalibrated", "divergence",
                                                             "near_tie", "no_room", "unsupported"};
constexpr std::array<std::string_view, 2> kAuditResults = {"agree", "differ"};
constexpr std::array<std::string_view, 4> kBlockStates = {"free", "evictable", "pinned",
                                                          "reserved"};
constexpr std::array<std::string_view, 3> kSummaryResults = {"done", "failed", "refused"};
constexpr std::array<std::string_view, 2> kAlarms = {"kv", "tpot"};
constexpr std::array<std::string_view, 2> kClasses = {"short", "long"};

// Seconds of a whole request or a long part of it.
constexpr std::array<double, 15> kRequestSeconds = {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,  2.5,
                                                    5,    10,    20,   40,  80,   160, 320};
// Seconds of one token or one step.
constexpr std::array<double, 13> kTokenSeconds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075,
                                                  0.1,   0.25,   0.5,   1,    2.5,   5};
// Mean KL in nats; the default of --max-divergence is one of the bounds.
constexpr std::array<double, 11> kDivergences = {0.0005, 0.001, 0.002, 0.005, 0.01, 0.02,
                                                 0.05,   0.1,   0.2,   0.5,   1};
constexpr std::array<double, 13> kTokenCounts = {1,    4,    16,   64,    256,   512,   1024,
                                                 2048, 4096, 8192, 16384, 32768, 131072};
// 64 KiB, 256 KiB and so on to 64 GiB.
constexpr std::array<double, 11> kKvBytes = {65536,      262144,      1048576,    4194304,
                                             16777216,   67108864,    268435456,  1073741824,
                                             4294967296, 17179869184, 68719476736};

constexpr std::array<MetricInfo, static_cast<std::size_t>(Metric::kCount)> kTable = {{
    {Metric::kPromptTokens, kCounter, "prompt_tokens_total",
     "Prompt tokens of finished requests, reused and computed ones together"},
    {Metric::kPromptTokensCached, kCounter, "prompt_tokens_cached_total",
     "Prompt tokens whose keys and values were reused exactly"},
    {Metric::kPromptTokensMoved, kCounter, "prompt_tokens_moved_total",
     "Prompt tokens whose keys and values came from another place (approximate reuse)"},
    {Metric::kPromptTokensRepaired, kCounter, "prompt_tokens_repaired_total",
     "Prompt tokens found at another place and computed again; they count as computed, too"},
    {Metric::kPromptTokensComputed, kCounter, "request_prefill_kv_computed_tokens_total",
     "Prompt tokens whose keys and values were computed"},
    {Metric::kPromptTokensBySource, kCounter, "prompt_tokens_by_source_total",
     "Prompt tokens by where their keys and values came from", "source", kSources},
    {Metric::kGenerationTokens, kCounter, "generation_tokens_total", "Generated tokens"},
    {Metric::kPrefixCacheQueries, kCounter, "prefix_cache_queries_total",
     "Prompt tokens looked up in the prefix cache, once for each admitted sequence"},
    {Metric::kPrefixCacheHits, kCounter, "prefix_cache_hits_total",
     "Of the tokens looked up, those found and reused"},
    {Metric::kPrefixCacheEvictions, kCounter, "prefix_cache_evicted_blocks_total",
     "Cached blocks given up to make room"},
    {Metric::kRequestsFinished, kCounter, "request_success_total",
     "Requests that ended, by reason; all reasons together are the requests received and done",
     "finished_reason", kFinishReasons},
    {Metric::kRequestsReceived, kCounter, "requests_received_total",
     "Generation requests received, refused ones included"},
    {Metric::kHttpResponses, kCounter, "http_responses_total", "HTTP responses by class of status",
     "status", kStatusClasses},
    {Metric::kEngineSteps, kCounter, "engine_steps_total", "Batches run through the model"},
    {Metric::kMissReasons, kCounter, "prefix_cache_miss_reason_total",
     "Requests by the reason why the reused prefix ended where it did", "reason", kMissReasonNames},
    {Metric::kReuseRefused, kCounter, "reuse_refused_total",
     "Requests whose text was found at another place and computed all the same, by reason",
     "reason", kRefusalReasons},
    {Metric::kReuseAudits, kCounter, "reuse_audits_total",
     "Approximate answers compared with exact ones while idle, by whether the likeliest first "
     "token "
     "was the same",
     "result", kAuditResults},
    {Metric::kIdleTokens, kCounter, "idle_computed_tokens_total",
     "Tokens of approximate answers computed exactly while nobody waited"},
    {Metric::kContextTrims, kCounter, "context_trims_total",
     "Running sequences whose context was cut to a budget"},
    {Metric::kContextTokensDropped, kCounter, "context_tokens_dropped_total",
     "Tokens of running sequences that were trimmed away, for the rest of their answers"},
    {Metric::kContextSummaries, kCounter, "context_summaries_total",
     "Summaries of older turns, by what came of them; refused ones found too many waiting",
     "result", kSummaryResults},
    {Metric::kContextTokensSummarized, kCounter, "context_tokens_summarized_total",
     "Tokens of older turns that summaries stand for, once for each summary"},
    {Metric::kRequestAlarms, kCounter, "request_alarms_total",
     "Running requests found out of line with those that ended before, by what was too much: the "
     "context they hold or the time of their tokens",
     "kind", kAlarms},

    {Metric::kRequestsRunning, kGauge, "num_requests_running", "Sequences being computed now"},
    {Metric::kRequestsWaiting, kGauge, "num_requests_waiting", "Requests waiting for admission"},
    {Metric::kRequestsByClass, kGauge, "num_requests_running_by_class",
     "Requests being computed now, by class: those of much expected context are long", "class",
     kClasses},
    {Metric::kKvTokensByClass, kGauge, "kv_tokens_by_class",
     "Tokens of context that running requests hold, by class; what they share counts for each",
     "class", kClasses},
    {Metric::kRequestsThrottled, kGauge, "num_requests_throttled",
     "Requests that others go before, since they are out of line"},
    {Metric::kKvCacheUsage, kGauge, "kv_cache_usage_perc",
     "Share of KV blocks held by running sequences, 0 to 1"},
    {Metric::kKvBlocks, kGauge, "kv_blocks",
     "KV blocks by state; free, evictable and pinned are all of them, reserved ones are promised "
     "out of free and evictable",
     "state", kBlockStates},
    {Metric::kKvBudgetBytes, kGauge, "kv_budget_bytes", "Bytes of all KV blocks: the hard budget"},
    {Metric::kWeightBytes, kGauge, "weight_bytes",
     "Bytes of the model's weights, read for every batch of generated tokens"},
    {Metric::kKvBytesPerToken, kGauge, "kv_bytes_per_token",
     "Bytes of keys and values of one token, read for every token generated behind it"},
    {Metric::kPrefillFlopPerToken, kGauge, "prefill_flop_per_token",
     "Floating-point operations per computed prompt token, without attention"},
    {Metric::kFullContextSequences, kGauge, "full_context_sequences",
     "Sequences of the longest context that the KV budget holds at a time"},
    {Metric::kReadBandwidth, kGauge, "read_bandwidth_bytes_per_second",
     "Bytes of weights that the compute threads read in a second, measured at the start; 0 = not "
     "measured"},
    {Metric::kLargestRequestKv, kGauge, "largest_request_kv_bytes",
     "Most bytes of keys and values that one request has held since the start"},
    {Metric::kProcessResidentBytes, kGauge, "process_resident_memory_bytes",
     "Resident memory of this process in bytes"},
    {Metric::kConnections, kGauge, "http_connections", "Open HTTP connections"},
    {Metric::kReusePromiseBroken, kGauge, "reuse_promise_broken",
     "1 since audits were further off than requests allowed: only exact context is reused until "
     "the "
     "server is started again"},

    {Metric::kTimeToFirstToken,
     kHistogram,
     "time_to_first_token_seconds",
     "Time from receiving a request to its first token",
     "",
     {},
     kRequestSeconds},
    {Metric::kTimePerOutputToken,
     kHistogram,
     "request_time_per_output_token_seconds",
     "Mean time of a request's output tokens after the first",
     "",
     {},
     kTokenSeconds},
    {Metric::kInterTokenLatency,
     kHistogram,
     "inter_token_latency_seconds",
     "Time between two tokens of one request",
     "",
     {},
     kTokenSeconds},
    {Metric::kRequestLatency,
     kHistogram,
     "e2e_request_latency_seconds",
     "Time from receiving a request to its last token",
     "",
     {},
     kRequestSeconds},
    {Metric::kQueueTime,
     kHistogram,
     "request_queue_time_seconds",
     "Time a request waited for admission",
     "",
     {},
     kRequestSeconds},
    {Metric::kPrefillTime,
     kHistogram,
     "request_prefill_time_seconds",
     "Time from admission to the first token",
     "",
     {},
     kRequestSeconds},
    {Metric::kDecodeTime,
     kHistogram,
     "request_decode_time_seconds",
     "Time from the first token to the last",
     "",
     {},
     kRequestSeconds},
    {Metric::kStepTime,
     kHistogram,
     "engine_step_seconds",
     "Time of one batch through the model",
     "",
     {},
     kTokenSeconds},
    {Metric::kPromptLength,
     kHistogram,
     "request_prompt_tokens",
     "Prompt tokens of a request",
     "",
     {},
     kTokenCounts},
    {Metric::kGenerationLength,
     kHistogram,
     "request_generation_tokens",
     "Generated tokens of a request",
     "",
     {},
     kTokenCounts},
    {Metric::kRequestKvPeak,
     kHistogram,
     "request_kv_peak_bytes",
     "Most bytes of keys and values that a request held at a time",
     "",
     {},
     kKvBytes},
    {Metric::kRequestKvMean,
     kHistogram,
     "request_kv_mean_bytes",
     "Bytes of keys and values that a request held on average, from admission to its end",
     "",
     {},
     kKvBytes},
    {Metric::kReuseDivergence,
     kHistogram,
     "reuse_divergence_estimate_nats",
     "Mean KL divergence from a cold run that was expected of a request with moved text",
     "",
     {},
     kDivergences},
    {Metric::kAuditDivergence,
     kHistogram,
     "reuse_audit_divergence_nats",
     "KL divergence that audits found between the exact and the approximate first token",
     "",
     {},
     kDivergences},
}};

}  // namespace

std::span<const MetricInfo> metrics_table() {
  return kTable;
}

}  // namespace refrain::metrics
