// Which moved rows to compute again: a pure choice from the runs that were moved and from how much
// attention the question pays to each key. Any thread.
//
// Rungs of the ladder, each with more work and less error:
//   kMoved      none
//   kHeads      the first 32 rows of each run: their neighbours to the left are new to them
//   kAttended   heads, and 15 % of the moved rows: those attended to most
//   kMore       heads, and 35 %
//   kAll        all of them: the result is that of a full prefill, bit for bit
//
// The chosen rows run at their true positions in one ascending pass with the fresh rows of the
// prompt, those behind the last chosen one included: they see what was repaired before them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "model/batch.h"

namespace refrain::model {

// Rows [begin, end) of a prompt whose K/V was moved there. Runs ascend and do not overlap.
struct MovedRun {
  Position begin = 0;
  Position end = 0;
};

enum class RepairRung : std::uint8_t { kMoved, kHeads, kAttended, kMore, kAll };
inline constexpr RepairRung kRepairRungs[] = {RepairRung::kMoved, RepairRung::kHeads,
                                              RepairRung::kAttended, RepairRung::kMore,
                                              RepairRung::kAll};

struct RepairRules {
  std::uint32_t head_rows = 0;       // of each run
  double attended_share = 0.0;       // of all moved rows, beside the heads; needs the mass
  std::uint32_t attended_least = 0;  // of each run, part of the share
};
RepairRules rules_of(RepairRung rung);
std::string_view name_of(RepairRung rung);  // "moved", "heads", "attended", "more", "all"
bool needs_mass(RepairRung rung);

// The last third of the layers look for what the answer needs; earlier ones look at neighbours and
// beginnings.
std::uint32_t first_looking_layer(std::uint32_t layer_count);
// Attention per key over the layers of `mass`: [mass.length].
std::vector<float> attention_per_key(const AttentionMass& mass);

// The rows to compute again, ascending. `attention` [at least the last run's end], or empty where
// no rule needs it. Of equal rows the first wins.
std::vector<Position> choose_repair(std::span<const MovedRun> runs,
                                    std::span<const float> attention, const RepairRules& rules);

// The rows of a pass that computes the chosen ones and all fresh ones; both ascend, as does this.
std::vector<Position> repair_pass(std::span<const Position> chosen,
                                  std::span<const Position> fresh);
// The same where the fresh rows were already computed over the unrepaired ones, to see where the
// attention goes: those before the first chosen row need not run again.
std::vector<Position> second_pass(std::span<const Position> chosen,
                                  std::span<const Position> fresh);

}  // namespace refrain::model
