// What a gate makes of a case of reuse: the server's choice. Main thread.
#include <algorithm>

#include "cli/reuse_bench.h"
#include "engine/distribution.h"

namespace refrain::cli {

std::vector<double> ReuseBench::changed_tokens(std::span<const float> rows,
                                               double estimate) const {
  const std::size_t width = compute_.loaded.model->shape().vocabulary_size;
  const std::size_t count = std::min<std::size_t>(rows.size() / width, model::kEstimatedTokens);
  std::vector<double> chances;
  for (std::size_t i = 0; i < count; ++i) {
    const double margin = engine::lead_of(rows.subspan(i * width, width)).margin();
    chances.push_back(options_.gate->changed_token(margin, estimate));
  }
  return chances;
}

std::optional<std::uint32_t> ReuseBench::first_tie(const GateResult& result) const {
  const double limit = options_.max_changed_first_tokens;
  if (!model::ReuseGate::watches(*result.estimate, limit)) return std::nullopt;
  const auto tie =
      std::ranges::find_if(result.changed_token, [&](double chance) { return chance > limit; });
  if (tie == result.changed_token.end()) return std::nullopt;
  return static_cast<std::uint32_t>(tie - result.changed_token.begin());
}

// An answer that goes on exactly from a near tie on has the cold run's rows there: what came before
// are its tokens.
Result<GateResult> ReuseBench::run_gate(const Asked& asked, const Cold& cold,
                                        const Wanted& wanted) {
  GateResult result{.estimate = {}, .chosen = {.errors = {}, .exposure = {}}};
  const Tick started = clock_.now();
  ASSIGN_OR_RETURN(Lane lane, open_warm(asked, wanted));
  auto begin = static_cast<Position>(lane.exact_tokens());
  std::uint64_t known = lane.exact_tokens();
  for (const kv::SegmentRun& run : lane.runs()) known += run.length;
  result.left_alone =
      !lane.runs().empty() && !engine::spares_enough(known, lane.exact_tokens(), lane.length());
  if (result.left_alone) result.chosen.rung = model::RepairRung::kAll;
  bool all = lane.runs().empty() || result.left_alone;
  std::vector<float> last;
  if (!all) {
    result.chosen.move = move_runs(lane);
    ASSIGN_OR_RETURN(Repaired repaired,
                     repair(lane, asked.turn,
                            {.gate = options_.gate, .max_divergence = options_.max_divergence}));
    const engine::PromptRepair& repair = repaired.repair;
    result.estimate = repair.estimate();
    all = repair.state() == engine::PromptRepair::State::kRefused;
    if (!all) {
      result.changed_token = changed_tokens(repaired.last, *result.estimate);
      result.tie = first_tie(result);
      all = result.tie.has_value();
    }
    result.refused = all;
    result.chosen.rung = all ? model::RepairRung::kAll : repair.rung();
    result.chosen.repaired_rows = repair.repaired_rows();
    begin = repair.first_row();
    last = std::move(repaired.last);
  }
  if (all) RETURN_IF_ERROR(lanes_->run_from(lane, begin, lane.last_row(), last));
  result.chosen.ttft = clock_.now() - started;
  RETURN_IF_ERROR(go_on(lane, asked, last, result.chosen.ttft));
  ASSIGN_OR_RETURN(std::vector<float> rows, answer_rows(lane, std::move(last), cold.answer));
  if (!all) {
    result.changed_token = changed_tokens(rows, *result.estimate);
    result.tie = first_tie(result);
    const std::size_t width = compute_.loaded.model->shape().vocabulary_size;
    const std::size_t from = result.tie ? width * *result.tie : rows.size();
    std::copy(cold.rows.begin() + static_cast<std::ptrdiff_t>(from), cold.rows.end(),
              rows.begin() + static_cast<std::ptrdiff_t>(from));
  }
  RETURN_IF_ERROR(compare(lane, std::move(rows), cold, wanted, result.chosen));
  return result;
}

}  // namespace refrain::cli
