#include "engine/engine_metrics.h"

#include <algorithm>
#include <string_view>

namespace refrain::engine {
namespace {

using metrics::Metric;

std::string_view reason_label(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "abort";
    case FinishReason::kDeadline:
      return "deadline";
    case FinishReason::kError:
      break;
  }
  return "error";
}

std::string_view miss_label(kv::MissReason reason) {
  switch (reason) {
    case kv::MissReason::kNone:
      return "none";
    case kv::MissReason::kCold:
      return "cold";
    case kv::MissReason::kDiverged:
      return "diverged";
    case kv::MissReason::kEnded:
      return "ended";
    case kv::MissReason::kShort:
      return "short";
    case kv::MissReason::kDisabled:
      break;
  }
  return "disabled";
}

// "" where nothing was refused.
std::string_view refusal_label(ReuseRefusal refusal) {
  switch (refusal) {
    case ReuseRefusal::kNone:
      break;
    case ReuseRefusal::kUncalibrated:
      return "uncalibrated";
    case ReuseRefusal::kDivergence:
      return "divergence";
    case ReuseRefusal::kNearTie:
      return "near_tie";
    case ReuseRefusal::kNoRoom:
      return "no_room";
    case ReuseRefusal::kUnsupported:
      return "unsupported";
  }
  return "";
}

}  // namespace

void EngineMetrics::count_received() {
  if (registry_ != nullptr) registry_->add(Metric::kRequestsReceived, 1);
}

void EngineMetrics::count_rejected() {
  if (registry_ != nullptr) registry_->add_labeled(Metric::kRequestsFinished, "rejected", 1);
}

void EngineMetrics::count_step(Tick duration) {
  if (registry_ == nullptr) return;
  registry_->add(Metric::kEngineSteps, 1);
  registry_->observe(Metric::kStepTime, to_seconds(duration));
}

void EngineMetrics::count_token(Tick gap_since_last, bool first) {
  if (registry_ == nullptr) return;
  registry_->add(Metric::kGenerationTokens, 1);
  if (!first) registry_->observe(Metric::kInterTokenLatency, to_seconds(gap_since_last));
}

void EngineMetrics::count_sibling(std::uint32_t prompt_tokens, std::uint32_t cached_tokens) {
  sibling_queried_ += prompt_tokens;
  sibling_hit_ += cached_tokens;
}

void EngineMetrics::count_end(const ActiveRequest& request, Tick now) {
  if (registry_ == nullptr) return;
  const FinishReason reason = request.reason();
  registry_->add_labeled(Metric::kRequestsFinished, reason_label(reason), 1);
  if (reason == FinishReason::kCancelled || reason == FinishReason::kError) return;
  if (reason == FinishReason::kDeadline && !request.sampled_any()) return;
  const Usage& usage = request.usage();
  count_prompt(usage);
  if (reason == FinishReason::kDeadline) return;
  const Timings times = request.timings();
  registry_->observe(Metric::kPromptLength, usage.prompt_tokens);
  registry_->observe(Metric::kGenerationLength, usage.completion_tokens);
  registry_->observe(Metric::kRequestLatency, to_seconds(now - request.submitted_at()));
  registry_->observe(Metric::kQueueTime, times.queue_ms / 1000);
  registry_->observe(Metric::kPrefillTime, times.prefill_ms / 1000);
  if (!request.sampled_any()) return;
  registry_->observe(Metric::kTimeToFirstToken, times.ttft_ms / 1000);
  registry_->observe(Metric::kDecodeTime, times.decode_ms / 1000);
  if (times.tpot_ms > 0) registry_->observe(Metric::kTimePerOutputToken, times.tpot_ms / 1000);
}

void EngineMetrics::count_dropped(std::uint32_t tokens, bool first) {
  if (registry_ == nullptr) return;
  if (first) registry_->add(Metric::kContextTrims, 1);
  registry_->add(Metric::kContextTokensDropped, tokens);
}

void EngineMetrics::count_kv(double peak_bytes, double mean_bytes) {
  if (registry_ == nullptr) return;
  registry_->observe(Metric::kRequestKvPeak, peak_bytes);
  registry_->observe(Metric::kRequestKvMean, mean_bytes);
  largest_kv_bytes_ = std::max(largest_kv_bytes_, peak_bytes);
  registry_->set(Metric::kLargestRequestKv, largest_kv_bytes_);
}

void EngineMetrics::count_prompt(const Usage& usage) {
  if (registry_ == nullptr) return;
  const std::uint32_t computed = usage.computed_tokens + usage.repaired_tokens;
  registry_->add(Metric::kPromptTokens, usage.prompt_tokens);
  registry_->add(Metric::kPromptTokensCached, usage.cached_tokens);
  registry_->add(Metric::kPromptTokensMoved, usage.moved_tokens);
  registry_->add(Metric::kPromptTokensRepaired, usage.repaired_tokens);
  registry_->add(Metric::kPromptTokensComputed, computed);
  registry_->add_labeled(Metric::kPromptTokensBySource, "local_cache_hit", usage.cached_tokens);
  registry_->add_labeled(Metric::kPromptTokensBySource, "local_cache_moved", usage.moved_tokens);
  registry_->add_labeled(Metric::kPromptTokensBySource, "local_compute", computed);
  registry_->add_labeled(Metric::kMissReasons, miss_label(usage.miss_reason), 1);
  if (usage.refusal != ReuseRefusal::kNone)
    registry_->add_labeled(Metric::kReuseRefused, refusal_label(usage.refusal), 1);
  if (usage.divergence_estimate.has_value())
    registry_->observe(Metric::kReuseDivergence, *usage.divergence_estimate);
}

void EngineMetrics::update_ledger(const kv::LedgerTotals& totals, const kv::LedgerCounts& counts) {
  if (registry_ == nullptr) return;
  const auto queried = totals.queried_tokens - reported_.queried_tokens - sibling_queried_;
  const auto hit = totals.hit_tokens - reported_.hit_tokens - sibling_hit_;
  const auto evicted = totals.evicted_blocks - reported_.evicted_blocks;
  if (queried > 0) registry_->add(Metric::kPrefixCacheQueries, static_cast<double>(queried));
  if (hit > 0) registry_->add(Metric::kPrefixCacheHits, static_cast<double>(hit));
  if (evicted > 0) registry_->add(Metric::kPrefixCacheEvictions, static_cast<double>(evicted));
  reported_ = totals;
  sibling_queried_ = sibling_hit_ = 0;
  registry_->set_labeled(Metric::kKvBlocks, "free", counts.free);
  registry_->set_labeled(Metric::kKvBlocks, "evictable", counts.evictable);
  registry_->set_labeled(Metric::kKvBlocks, "pinned", counts.pinned);
  registry_->set_labeled(Metric::kKvBlocks, "reserved", counts.reserved);
  registry_->set(Metric::kKvCacheUsage,
                 counts.total == 0 ? 0.0 : static_cast<double>(counts.pinned) / counts.total);
}

void EngineMetrics::count_audit(const Audit& audit, bool broken) {
  if (registry_ == nullptr) return;
  registry_->add_labeled(Metric::kReuseAudits, audit.same_first_token ? "agree" : "differ", 1);
  registry_->observe(Metric::kAuditDivergence, audit.divergence);
  registry_->set(Metric::kReusePromiseBroken, broken ? 1 : 0);
}

void EngineMetrics::update_idle(std::uint64_t computed) {
  if (registry_ == nullptr) return;
  registry_->add(Metric::kIdleTokens, static_cast<double>(computed - idle_tokens_));
  idle_tokens_ = computed;
}

void EngineMetrics::count_alarm(Alarm alarm) {
  if (registry_ != nullptr) registry_->add_labeled(Metric::kRequestAlarms, alarm_name(alarm), 1);
}

void EngineMetrics::set_classes(const ClassLoad& of_short, const ClassLoad& of_long,
                                std::uint32_t throttled) {
  if (registry_ == nullptr) return;
  registry_->set_labeled(Metric::kRequestsByClass, "short", of_short.requests);
  registry_->set_labeled(Metric::kRequestsByClass, "long", of_long.requests);
  registry_->set_labeled(Metric::kKvTokensByClass, "short",
                         static_cast<double>(of_short.kv_tokens));
  registry_->set_labeled(Metric::kKvTokensByClass, "long", static_cast<double>(of_long.kv_tokens));
  registry_->set(Metric::kRequestsThrottled, throttled);
}

void EngineMetrics::set_load(std::uint32_t running, std::uint32_t waiting) {
  if (registry_ == nullptr) return;
  registry_->set(Metric::kRequestsRunning, running);
  registry_->set(Metric::kRequestsWaiting, waiting);
}

}  // namespace refrain::engine
