// The long class and requests out of line. Engine thread.
#include <algorithm>
#include <unordered_set>

#include "base/log.h"
#include "base/str.h"
#include "engine/engine_impl.h"

namespace refrain::engine {

// Blocks that long choices share count once, so that many requests over one long beginning are not
// kept apart:
//
//   held      tables of the long ones that run, together    + what is reserved for them
//   newcomer  its worst case, without what it finds in one of these tables
bool Engine::Impl::long_class_has_room(const kv::ReusePlan& plan, std::uint32_t worst_case) const {
  std::unordered_set<BlockId> held;
  std::uint64_t reserved = 0;
  std::uint32_t running = 0;
  for (const Running& entry : running_) {
    const Sequence& sequence = *entry.sequence;
    if (!sequence.is_long || entry.request->request().gives_way) continue;
    ++running;
    const kv::BlockTable& table = ledger_.table(sequence.id());
    held.insert(table.begin(), table.end());
    const std::uint32_t most =
        ledger_.blocks_for(sequence.prompt_tokens() + entry.request->request().max_tokens);
    reserved += most - std::min<std::uint64_t>(most, table.size());
  }
  if (running == 0) return true;
  if (running >= isolation_.long_part(options_.max_running)) return false;
  std::uint64_t wanted = ledger_.blocks_for(worst_case);
  for (const auto* found : {&plan.exact_blocks, &plan.approximate_blocks})
    for (const BlockId block : *found) wanted -= held.contains(block) ? 1 : 0;
  return held.size() + reserved + wanted <= isolation_.long_part(ledger_.options().block_count);
}

void Engine::Impl::raise_alarms() {
  if (isolation_.options().alarm_factor <= 0) return;
  std::uint64_t all_kv_tokens = 0;
  for (const auto& [id, request] : requests_) all_kv_tokens += request->kv_use().tokens();
  for (const auto& [id, request] : requests_) {
    if (!request->was_admitted() || request->alarm() != Alarm::kNone) continue;
    if (request->request().gives_way) continue;
    const Alarm alarm = isolation_.judge(
        {.kv_tokens = request->kv_use().tokens(), .tpot_ms = request->recent_tpot_ms()},
        all_kv_tokens);
    if (alarm != Alarm::kNone) raise(*request, alarm);
  }
}

void Engine::Impl::raise(ActiveRequest& request, Alarm alarm) {
  const bool throttle = isolation_.options().throttle;
  request.note_alarm(alarm, throttle);
  metrics_.count_alarm(alarm);
  const std::string what =
      alarm == Alarm::kKv
          ? str_cat("holds ", request.kv_use().tokens(),
                    " tokens of context; those that ended held ",
                    static_cast<std::uint64_t>(isolation_.usual_peak_tokens()), " on average")
          : str_cat("takes ", request.recent_tpot_ms(), " ms per token behind ",
                    request.kv_use().tokens(), " tokens of context; those that ended took ",
                    isolation_.usual_tpot_ms(), " ms");
  log_warn(str_cat(
      "request ", to_int(request.id()),
      request.request().label.empty() ? "" : str_cat(" (", request.request().label, ")"),
      " is out of line: it ", what, throttle ? "; it is throttled" : "; throttling is off"));
}

void Engine::Impl::publish_classes() {
  EngineMetrics::ClassLoad load[2];
  std::uint32_t throttled = 0;
  for (const auto& [id, request] : requests_) {
    if (!request->was_admitted()) continue;
    EngineMetrics::ClassLoad& of_class = load[request->is_long() ? 1 : 0];
    ++of_class.requests;
    of_class.kv_tokens += request->kv_use().tokens();
    throttled += request->throttled() && !request->request().gives_way ? 1 : 0;
  }
  metrics_.set_classes(load[0], load[1], throttled);
}

}  // namespace refrain::engine
