// Lanes: sequences side by side in the arena of a Compute, whose rows may be computed in any
// choice and order; for measuring what reuse does. Nothing is shared or reused between lanes.
// Main thread.
//
//   ASSIGN_OR_RETURN(Lane lane, lanes.open(3000));     // room for 3000 tokens
//   lane.append(tokens);                               // slots
//   RETURN_IF_ERROR(lanes.run(lane, {.rows = rows, .first_logits = 2999}, output));
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/runtime.h"
#include "kv/ledger.h"
#include "model/batch.h"

namespace refrain::cli {

// One sequence; gives its blocks back at its end.
class Lane {
 public:
  Lane(kv::Ledger& ledger, SequenceId id) : ledger_(&ledger), id_(id) {}
  Lane(Lane&& other) noexcept : ledger_(std::exchange(other.ledger_, nullptr)), id_(other.id_) {
    tokens_.swap(other.tokens_);
  }
  Lane& operator=(Lane&&) = delete;
  ~Lane() {
    if (ledger_ != nullptr) ledger_->release(id_, 0);
  }

  void append(std::span<const TokenId> tokens);
  const TokenList& tokens() const { return tokens_; }
  std::uint32_t length() const { return static_cast<std::uint32_t>(tokens_.size()); }
  const kv::BlockTable& table() const { return ledger_->table(id_); }

 private:
  kv::Ledger* ledger_;
  SequenceId id_;
  TokenList tokens_;
};

// What to compute of a lane.
struct LaneRows {
  std::span<const Position> rows;  // ascending
  Position first_logits = 0;       // these rows and later ones give logits
  Position first_mass = kNoMass;   // these and later ones give their attention
  static constexpr Position kNoMass = INT32_MAX;
};

struct LaneOutput {
  std::vector<float> logits;     // [rows that give them][vocabulary_size]
  std::vector<float> attention;  // per key, over all layers and rows that give it; or empty
};

class Lanes {
 public:
  // `compute` outlives this. At most `step_tokens` rows run together.
  static Result<std::unique_ptr<Lanes>> create(Compute& compute, std::uint32_t step_tokens);

  // kInvalidArgument if there is no room for a lane of that many tokens beside the others.
  Result<Lane> open(std::uint32_t token_count);
  // With at most `step_tokens` rows together; 0: as created.
  Result<void> run(const Lane& lane, const LaneRows& wanted, LaneOutput& output,
                   std::uint32_t step_tokens = 0);
  // The same for all rows [begin, length).
  Result<void> run_from(const Lane& lane, Position begin, Position first_logits, LaneOutput& output,
                        std::uint32_t step_tokens = 0);

 private:
  Lanes(Compute& compute, std::uint32_t step_tokens, std::unique_ptr<kv::Ledger> ledger)
      : compute_(compute), step_tokens_(step_tokens), ledger_(std::move(ledger)) {}
  Result<void> run_step(const Lane& lane, const LaneRows& wanted, LaneOutput& output);

  Compute& compute_;
  const std::uint32_t step_tokens_;
  std::unique_ptr<kv::Ledger> ledger_;
  std::uint64_t next_id_ = 1;
  model::BatchOutput batch_output_;
};

}  // namespace refrain::cli
