// BatchBuilder: turns "these rows of these sequences" into a Batch: takes slots from the ledger,
// fills the rows, and says where in the output the results of each sequence stand.
// Engine thread.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "engine/active_request.h"
#include "kv/ledger.h"
#include "model/batch.h"

namespace refrain::engine {

// The share of one sequence in a step.
//
//   row_count rows at positions [first_position, first_position + row_count), or the first
//   row_count pending ones of its repair; logits of the last `logit_count` of them begin at
//   BatchOutput row `first_logits`, hidden states likewise.
struct ScheduledSequence {
  ActiveRequest* request = nullptr;
  Sequence* sequence = nullptr;
  std::uint32_t row_count = 0;
  std::uint32_t first_position = 0;
  std::size_t first_logits = 0;
  std::uint32_t logit_count = 0;
  std::size_t first_hidden = 0;
  bool samples = false;  // its last row gives the next token; in a repair, if that is accepted
};

class BatchBuilder {
 public:
  BatchBuilder(kv::Ledger& ledger, std::uint32_t first_mass_layer)
      : ledger_(ledger), first_mass_layer_(first_mass_layer) {}

  // Appends to the ledger and fills `batch` and the positions in `scheduled`. The block tables in
  // `batch` stay valid until the ledger changes.
  void build(std::vector<ScheduledSequence>& scheduled, Tick now, model::Batch& batch);

 private:
  void add_rows(ScheduledSequence& scheduled, model::Batch& batch);
  void add_repair_rows(ScheduledSequence& scheduled, model::Batch& batch);

  kv::Ledger& ledger_;
  const std::uint32_t first_mass_layer_;
  std::size_t logit_rows_ = 0;
  std::size_t hidden_rows_ = 0;
};

}  // namespace refrain::engine
