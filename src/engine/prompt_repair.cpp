// See prompt_repair.h.
#include "engine/prompt_repair.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace refrain::engine {
namespace {

using model::MovedRun;
using model::RepairRung;

std::vector<Position> rows_between(Position begin, Position end) {
  std::vector<Position> rows(static_cast<std::size_t>(std::max(end - begin, 0)));
  std::iota(rows.begin(), rows.end(), begin);
  return rows;
}

std::vector<Position> rows_outside(std::span<const MovedRun> runs, Position end) {
  std::vector<Position> rows;
  Position next = runs.front().begin;
  for (const MovedRun& run : runs) {
    const std::vector<Position> gap = rows_between(next, run.begin);
    rows.insert(rows.end(), gap.begin(), gap.end());
    next = run.end;
  }
  const std::vector<Position> rest = rows_between(next, end);
  rows.insert(rows.end(), rest.begin(), rest.end());
  return rows;
}

}  // namespace

std::vector<MovedRun> moved_runs(std::span<const kv::SegmentRun> runs) {
  std::vector<MovedRun> moved;
  moved.reserve(runs.size());
  for (const kv::SegmentRun& run : runs) moved.push_back({run.begin, run.end()});
  return moved;
}

bool spares_enough(std::uint64_t known, std::uint64_t exact, std::uint64_t prompt_tokens) {
  const std::uint64_t spared = known - std::min(known, exact);
  return 4 * spared >= prompt_tokens - exact;
}

model::ContextChange change_of(std::span<const kv::SegmentRun> runs) {
  constexpr double kLittle = 0.25;  // of a run's length
  double moved = 0.0, recombined = 0.0;
  const kv::SegmentRun* previous = nullptr;
  for (const kv::SegmentRun& run : runs) {
    // Tokens in front of it that are not the same there and here, on both sides.
    const double common = double{run.known_context} * run.source_begin;
    const double other = run.source_begin + run.begin - 2.0 * common;
    const bool in_order =
        previous == nullptr ||
        run.source_begin >= previous->source_begin + static_cast<Position>(previous->length);
    moved += run.length;
    if (!in_order || other > kLittle * run.length) recombined += run.length;
    previous = &run;
  }
  return recombined <= kLittle * moved ? model::ContextChange::kEdited
                                       : model::ContextChange::kRecombined;
}

Position question_begin(Position turn, std::span<const MovedRun> runs, Position end) {
  constexpr Position kQuestionRows = 64;
  // Fewer fresh rows at the end are no question: it was moved with what stood before it.
  constexpr Position kLeastFreshQuestion = 8;
  Position begin = std::max(turn, end - kQuestionRows);
  if (!runs.empty() && end - runs.back().end >= kLeastFreshQuestion)
    begin = std::max(begin, runs.back().end);
  return std::min(begin, end - 1);
}

PromptRepair::PromptRepair(std::vector<MovedRun> runs, std::span<const TokenId> tokens,
                           Position question, model::ContextChange change, const RepairJudge& judge,
                           const model::ProbeReader* probes)
    : runs_(std::move(runs)),
      end_(static_cast<Position>(tokens.size())),
      question_(question),
      judge_(judge),
      change_(change),
      probes_(probes) {
  CHECK(!runs_.empty() && runs_.back().end < end_ && question_ < end_, "nothing to repair");
  fresh_ = rows_outside(runs_, end_);
  if (judge_.fixed) return;
  CHECK(judge_.gate != nullptr && probes_ != nullptr, "nobody to judge what was moved");
  probed_ = model::choose_probes(runs_, tokens);
}

void PromptRepair::begin(const kv::BlockTable& table, const model::OpenTile& open_tile) {
  in_front_ = open_tile;
  const std::vector<Position> asked =
      model::repair_pass(rows_between(std::max(question_, first_row()), end_), fresh_);
  if (judge_.fixed) {
    if (model::needs_mass(*judge_.fixed)) {
      start_pass(asked, /*looking=*/true);
    } else {
      start_pass(model::repair_pass(chosen_at(*judge_.fixed), fresh_), /*looking=*/false);
    }
    return;
  }
  moved_values_ = probes_->read(table, probed_);
  std::vector<Position> rows = model::repair_pass(probed_, asked);
  if (change_ == model::ContextChange::kEdited)
    rows = model::repair_pass(chosen_at(RepairRung::kHeads), rows);
  start_pass(std::move(rows), /*looking=*/true);
}

void PromptRepair::start_pass(std::vector<Position> rows, bool looking) {
  pass_ = std::move(rows);
  done_ = 0;
  looking_ = looking;
  if (!pass_.empty()) open_tile_ = in_front_;
}

void PromptRepair::ran(std::size_t count, const model::AttentionMass* mass,
                       const kv::BlockTable& table) {
  CHECK(count <= pass_.size() - done_, "rows that are not pending");
  done_ += count;
  if (mass != nullptr) {
    const std::vector<float> attention = model::attention_per_key(*mass);
    if (look_.attention.size() < attention.size()) look_.attention.resize(attention.size());
    for (std::size_t key = 0; key < attention.size(); ++key) look_.attention[key] += attention[key];
  }
  if (done_ == pass_.size()) end_pass(table);
}

void PromptRepair::end_pass(const kv::BlockTable& table) {
  if (!looking_) {
    state_ = State::kAccepted;
    if (judge_.fixed && !model::needs_mass(*judge_.fixed)) accept(*judge_.fixed, pass_);
    return;
  }
  looked_ = pass_;
  if (judge_.fixed) {
    const std::vector<Position> chosen = chosen_at(*judge_.fixed);
    accept(*judge_.fixed, model::repair_pass(chosen, looked_));
    start_pass(model::second_pass(chosen, looked_), /*looking=*/false);
    if (pass_.empty()) state_ = State::kAccepted;
    return;
  }
  look_.residuals =
      probes_->residuals(runs_, probed_, moved_values_, probes_->read(table, probed_));
  judge_look();
}

void PromptRepair::judge_look() {
  const RepairRung so_far =
      change_ == model::ContextChange::kEdited ? RepairRung::kHeads : RepairRung::kMoved;
  if (allows(so_far, looked_)) {
    accept(so_far, looked_);
    state_ = State::kAccepted;
    return;
  }
  for (const RepairRung rung : {RepairRung::kAttended, RepairRung::kMore}) {
    const std::vector<Position> chosen = chosen_at(rung);
    const std::vector<Position> computed = model::repair_pass(chosen, looked_);
    if (!allows(rung, computed)) continue;
    accept(rung, computed);
    start_pass(model::second_pass(chosen, looked_), /*looking=*/false);
    return;
  }
  state_ = State::kRefused;
}

bool PromptRepair::allows(RepairRung rung, std::span<const Position> computed) {
  const std::optional<double> added =
      judge_.gate->estimate(change_, rung, model::exposure(runs_, look_, computed));
  if (!added) return false;
  estimate_ = judge_.inherited + *added;
  return *estimate_ <= judge_.max_divergence;
}

std::vector<Position> PromptRepair::chosen_at(RepairRung rung) const {
  return model::choose_repair(runs_, look_.attention, model::rules_of(rung));
}

double PromptRepair::exposure_at(RepairRung rung) const {
  return model::exposure(runs_, look_, model::repair_pass(chosen_at(rung), looked_));
}

void PromptRepair::accept(RepairRung rung, std::span<const Position> computed) {
  rung_ = rung;
  // Behind the exact rows everything is fresh or of a run.
  repaired_ = static_cast<std::uint32_t>(computed.size() - fresh_.size());
}

std::uint32_t PromptRepair::moved_rows() const {
  std::uint32_t rows = 0;
  for (const MovedRun& run : runs_) rows += static_cast<std::uint32_t>(run.end - run.begin);
  return rows - repaired_;
}

}  // namespace refrain::engine
