// Who holds how much of the KV budget, and what steps read beside what they took. Engine thread,
// except kv_report().
#include <algorithm>

#include "engine/engine_impl.h"

namespace refrain::engine {
namespace {

// Weight of the newest step in smoothed figures.
constexpr double kNewest = 1.0 / 64;

void smooth(double& value, double newest, std::uint64_t count) {
  value += std::max(kNewest, 1.0 / static_cast<double>(count)) * (newest - value);
}

}  // namespace

// Further choices share the whole blocks of the prompt that they reuse with the first; what is
// behind those is theirs, a copied part of a block, too. Where the first has ended, its blocks stay
// theirs together:
//
//   first choice   [ prompt .............. | generated ]
//   second         [ shared ........ ]( own ........... ]
//   third          [ shared ........ ]( own ..... ]
Engine::Impl::HeldKv Engine::Impl::held_by(const ActiveRequest& request) const {
  const std::uint32_t block_size = ledger_.options().block_size;
  HeldKv first, shared, own;
  for (const auto& choice : request.choices()) {
    if (!choice->holds_blocks()) continue;
    const std::uint64_t tokens = ledger_.length(choice->id()) - ledger_.dropped(choice->id());
    const std::uint64_t blocks = ledger_.table(choice->id()).size();
    if (choice->choice() == 0) {
      first = {tokens, blocks};
      continue;
    }
    // Of a trimmed one it is not known which blocks those are.
    const std::uint64_t whole =
        ledger_.dropped(choice->id()) > 0 ? 0 : choice->reused_tokens() / block_size;
    shared.tokens = std::max(shared.tokens, whole * block_size);
    shared.blocks = std::max(shared.blocks, whole);
    own.tokens += tokens - whole * block_size;
    own.blocks += blocks - whole;
  }
  return {std::max(first.tokens, shared.tokens) + own.tokens,
          std::max(first.blocks, shared.blocks) + own.blocks};
}

void Engine::Impl::note_kv_use() {
  for (const auto& [id, request] : requests_)
    if (request->was_admitted()) request->note_kv(now_, held_by(*request).tokens);
}

void Engine::Impl::note_step_reads() {
  std::uint64_t bytes = parts_.read_cost.weight_bytes;
  bool only_decodes = true;
  for (const ScheduledSequence& entry : scheduled_) {
    const SequenceId id = entry.sequence->id();
    bytes += parts_.read_cost.kv_bytes(ledger_.length(id) - ledger_.dropped(id));
    only_decodes = only_decodes && entry.sequence->decoding() && entry.row_count == 1;
  }
  step_read_bytes_ = static_cast<double>(bytes);
  decode_rows_ = only_decodes ? static_cast<std::uint32_t>(scheduled_.size()) : 0;
}

void Engine::Impl::note_decode_step(Tick duration) {
  if (decode_rows_ == 0) return;
  const std::uint64_t count = ++decode_steps_.steps;
  smooth(decode_steps_.read_bytes, step_read_bytes_, count);
  smooth(decode_steps_.seconds, to_seconds(duration), count);
  smooth(decode_steps_.rows, decode_rows_, count);
  if (duration > 0)
    decode_steps_.best_bytes_per_s =
        std::max(decode_steps_.best_bytes_per_s, step_read_bytes_ / to_seconds(duration));
}

void Engine::Impl::count_ended_kv(ActiveRequest& request) {
  if (!request.kv_use().began()) return;
  request.note_kv(now_, request.kv_use().tokens());
  const KvUse& use = request.kv_use();
  if (request.request().gives_way) return;  // not what answers are like
  isolation_.note_ended(use.peak(),
                        static_cast<double>(request.usage().completion_tokens) /
                            static_cast<double>(std::max<std::size_t>(1, request.choices().size())),
                        request.timings().tpot_ms);
  ++ended_kv_.requests;
  ended_kv_.peak_tokens = std::max(ended_kv_.peak_tokens, use.peak());
  ended_kv_.sum_of_peak_tokens += static_cast<double>(use.peak());
  ended_kv_.sum_of_mean_tokens += use.mean();
  const auto per_token = static_cast<double>(parts_.read_cost.kv_bytes_per_token);
  metrics_.count_kv(per_token * static_cast<double>(use.peak()), per_token * use.mean());
}

void Engine::Impl::publish_kv_report() {
  admitted_unreported_ = false;
  next_report_.blocks = ledger_.counts();
  next_report_.running = static_cast<std::uint32_t>(running_.size());
  next_report_.requests.clear();
  for (const auto& [id, request] : requests_) {
    if (!request->was_admitted()) continue;
    const HeldKv held = held_by(*request);
    request->note_kv(now_, held.tokens);
    next_report_.requests.push_back(request->kv_row());
    next_report_.requests.back().kv_blocks = held.blocks;
  }
  std::sort(next_report_.requests.begin(), next_report_.requests.end(),
            [](const RequestKv& a, const RequestKv& b) { return to_int(a.id) < to_int(b.id); });
  next_report_.ended = ended_kv_;
  next_report_.decode = decode_steps_;
  std::lock_guard lock(kv_report_mutex_);
  std::swap(kv_report_, next_report_);
}

KvReport Engine::Impl::kv_report() const {
  std::lock_guard lock(kv_report_mutex_);
  return kv_report_;
}

}  // namespace refrain::engine
