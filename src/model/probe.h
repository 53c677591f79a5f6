// Probes: moved rows that are computed again in any case, to see how far moved rows are off. Which
// rows is decided by their tokens alone, so that a request can be repeated. Engine thread.
//
//   moved           values of the probes as another context gave them     read()
//   look pass       the probes are computed again, over the moved rows
//   residual        |fresh - moved| / |fresh| of the values               read(), residuals()
//
// Values, not keys: they do not turn with the position, and no rounding of a turn is in them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "kv/block_table.h"
#include "model/kv_arena.h"
#include "model/repair_choice.h"
#include "model/shape.h"

namespace refrain::model {

inline constexpr std::uint32_t kProbesPerRun = 4;

// `per_run` rows of each run, or all of a shorter one: one in each of so many equal stretches.
// `tokens`: the prompt. Ascending.
std::vector<Position> choose_probes(std::span<const MovedRun> runs, std::span<const TokenId> tokens,
                                    std::uint32_t per_run = kProbesPerRun);

class ProbeReader {
 public:
  // Both outlive it.
  ProbeReader(const ModelShape& shape, const KvArena& arena) : shape_(shape), arena_(arena) {}

  // Values of rows of one sequence: [rows][layer_count][kv_head_count * value_dim].
  std::vector<float> read(const kv::BlockTable& table, std::span<const Position> rows) const;
  // For each run the mean over its probes and over the layers of |fresh - moved| / |fresh|; 0 for a
  // run without probes. `rows`: those of both readings, ascending.
  std::vector<float> residuals(std::span<const MovedRun> runs, std::span<const Position> rows,
                               std::span<const float> moved, std::span<const float> fresh) const;

 private:
  const ModelShape& shape_;
  const KvArena& arena_;
};

}  // namespace refrain::model
