// PromptRepair: from a prompt whose runs were moved to one that may be sampled from: which rows to
// compute, in which passes, and whether what is left of the error is acceptable. It knows rows and
// attention, not blocks, batches or requests; who owns it runs the rows (the engine, and `refrain
// eval reuse`). Engine thread.
//
//   prompt      [ exact ....... ][ run ........ ][ fresh ][ run ........... ][ question ]
//   here                         ^first_row                                             ^end
//   look pass                      h h p   p      f f f f   h h  p     p       q q q q q
//   second pass                    r r r r   r              r r    r   r       q q q q q
//
//   f fresh rows, q the question (fresh or not), p probes, r what the look says, h heads in edited
//   text: there they have new neighbours, little else has; recombined passages need what the
//   question looks at. All at their true positions, each pass in ascending order.
//
// With a gate: look, then the lowest rung whose estimate is allowed, or refusal. With a fixed rung
// (measuring, and mode splice): that rung, no probes, no refusal.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kv/ledger.h"
#include "model/batch.h"
#include "model/open_tile.h"
#include "model/probe.h"
#include "model/repair_choice.h"
#include "model/reuse_gate.h"

namespace refrain::engine {

// Who decides how much is repaired.
struct RepairJudge {
  std::optional<model::RepairRung> fixed = {};
  const model::ReuseGate* gate = nullptr;  // if no rung is fixed
  double max_divergence = 0.0;             // of the whole prompt
  double inherited = 0.0;                  // of that, what its approximate beginning has already
};

// Runs of a plan, as repair_choice.h has them.
std::vector<model::MovedRun> moved_runs(std::span<const kv::SegmentRun> runs);

// Whether an approximation spares a quarter of what would be computed for an exact answer. Less is
// not worth the error: a few lines of boilerplate stand in many prompts. `known`: tokens found of
// all kinds; `exact`: those of them in front that an exact answer would find.
bool spares_enough(std::uint64_t known, std::uint64_t exact, std::uint64_t prompt_tokens);

// Edited, if nearly all of the moved text is in its old order and has nearly the same text in front
// of it: what differs there, on both sides, is at most a quarter of the run's length.
model::ContextChange change_of(std::span<const kv::SegmentRun> runs);

// Where the last user turn begins: at most the last 64 rows, and not a document that was moved into
// it. `turn`: where the last message begins.
Position question_begin(Position turn, std::span<const model::MovedRun> runs, Position end);

class PromptRepair {
 public:
  enum class State {
    kRunning,   // rows are pending
    kAccepted,  // all rows hold what the answer may be sampled from
    kRefused    // it expects more than is allowed: compute all of it instead
  };

  // `tokens`: the prompt. `probes` outlives this; only needed with a gate. `question`: the rows
  // that are asked where they look, at least the last one.
  PromptRepair(std::vector<model::MovedRun> runs, std::span<const TokenId> tokens,
               Position question, model::ContextChange change, const RepairJudge& judge,
               const model::ProbeReader* probes);

  Position first_row() const { return runs_.front().begin; }
  Position end() const { return end_; }
  // The runs' rows have been moved to the slots of `table`. `open_tile`: the sequence's.
  void begin(const kv::BlockTable& table, const model::OpenTile& open_tile);
  // For the batches of the pass at hand. Each pass begins with the sequence's, so that no row sees
  // what another pass left; once the repair is accepted it is the sequence's.
  model::OpenTile& open_tile() { return open_tile_; }

  State state() const { return state_; }
  // Rows of the pass at hand still to be run, ascending; the last one is the prompt's.
  std::span<const Position> pending() const { return std::span(pass_).subspan(done_); }
  bool wants_mass(Position row) const { return looking_ && row >= question_; }
  // The first `count` pending rows were run; `mass` of those that want it, or null.
  void ran(std::size_t count, const model::AttentionMass* mass, const kv::BlockTable& table);

  // ---- once it is accepted or refused
  model::RepairRung rung() const { return rung_; }
  std::uint32_t repaired_rows() const { return repaired_; }  // of the runs
  std::uint32_t moved_rows() const;                          // of the runs, not repaired
  std::uint32_t fresh_rows() const { return static_cast<std::uint32_t>(fresh_.size()); }
  // Of the whole prompt; none with a fixed rung.
  std::optional<double> estimate() const { return estimate_; }
  // What stays exposed when `rung` is chosen now, after a look.
  double exposure_at(model::RepairRung rung) const;

 private:
  void start_pass(std::vector<Position> rows, bool looking);
  void end_pass(const kv::BlockTable& table);
  void judge_look();
  // Whether the gate allows `rung`, whose rows are `computed`.
  bool allows(model::RepairRung rung, std::span<const Position> computed);
  std::vector<Position> chosen_at(model::RepairRung rung) const;
  void accept(model::RepairRung rung, std::span<const Position> computed);

  const std::vector<model::MovedRun> runs_;
  const Position end_;
  const Position question_;
  const RepairJudge judge_;
  const model::ContextChange change_;
  const model::ProbeReader* probes_;
  std::vector<Position> fresh_;   // rows that no run has
  std::vector<Position> probed_;  // rows
  std::vector<float> moved_values_;
  model::Look look_;
  State state_ = State::kRunning;
  bool looking_ = false;
  model::OpenTile in_front_, open_tile_;
  std::vector<Position> pass_;
  std::size_t done_ = 0;
  std::vector<Position> looked_;  // rows of the look pass
  model::RepairRung rung_ = model::RepairRung::kMoved;
  std::uint32_t repaired_ = 0;
  std::optional<double> estimate_;
};

}  // namespace refrain::engine
