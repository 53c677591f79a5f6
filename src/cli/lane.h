// Lanes: sequences side by side in the arena of a Compute, whose rows may be computed in any
// choice and order; for measuring what reuse does. They reuse and publish through a ledger of their
// own, as the engine's do; what a lane computed is found by later ones only if it is kept. Main
// thread.
//
//   ASSIGN_OR_RETURN(Lane lane, lanes.open(prompt, 24, LaneReuse::kSegments));
//   ... lane.exact_tokens() rows are there; lane.runs() can be moved to their places ...
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
#include "model/open_tile.h"

namespace refrain::cli {

enum class LaneReuse {
  kNothing,   // a cold run
  kPrefix,    // the exact prefix
  kSegments,  // exact prefix and moved text
};

// One sequence; ends with it.
class Lane {
 public:
  Lane(kv::Ledger& ledger, SequenceId id, TokenList tokens, kv::Admission admission)
      : ledger_(&ledger), id_(id), tokens_(std::move(tokens)), admission_(std::move(admission)) {}
  Lane(Lane&& other) noexcept
      : ledger_(std::exchange(other.ledger_, nullptr)),
        id_(other.id_),
        kept_(other.kept_),
        tokens_(std::move(other.tokens_)),
        admission_(std::move(other.admission_)),
        open_tile_(std::move(other.open_tile_)) {}
  Lane& operator=(Lane&&) = delete;
  ~Lane();

  // Slots for more tokens behind the prompt.
  void append(std::span<const TokenId> tokens);
  // Another token in a slot that has one. Its row and later ones are to be computed again, and the
  // lane is not to be kept.
  void overwrite(Position at, TokenId token);
  // All its rows are computed: at its end the exact ones stay, to be found by others.
  void keep() { kept_ = true; }

  const TokenList& tokens() const { return tokens_; }
  std::uint32_t length() const { return static_cast<std::uint32_t>(tokens_.size()); }
  Position last_row() const { return static_cast<Position>(length()) - 1; }
  const kv::BlockTable& table() const { return ledger_->table(id_); }
  model::OpenTile& open_tile() const { return *open_tile_; }  // for its batches
  std::uint32_t exact_tokens() const { return admission_.cached_tokens; }
  const std::vector<kv::SegmentRun>& runs() const { return admission_.runs; }

 private:
  kv::Ledger* ledger_;
  SequenceId id_;
  bool kept_ = false;
  TokenList tokens_;
  kv::Admission admission_;
  std::unique_ptr<model::OpenTile> open_tile_ = std::make_unique<model::OpenTile>();
};

// What to compute of a lane.
struct LaneRows {
  std::span<const Position> rows;  // ascending
  Position first_logits = 0;       // these rows and later ones give logits
  Position first_mass = kNoMass;   // these and later ones give their attention
  static constexpr Position kNoMass = INT32_MAX;
  model::OpenTile* open_tile = nullptr;  // null: the lane's
};

class Lanes {
 public:
  // `compute` outlives this. At most `step_tokens` rows run together.
  static Result<std::unique_ptr<Lanes>> create(Compute& compute, std::uint32_t step_tokens);

  // With slots for the whole prompt, and room for `more` tokens behind it. kInvalidArgument if
  // there is no such room beside the others.
  Result<Lane> open(const TokenList& prompt, std::uint32_t more, LaneReuse reuse);
  // One step: the first of `wanted.rows`; returns how many. `output` is that of the executor.
  Result<std::size_t> step(const Lane& lane, const LaneRows& wanted, model::BatchOutput& output,
                           std::uint32_t step_tokens = 0);
  // All rows [begin, length), at most `step_tokens` together (0: as created); logits [rows that
  // give them][vocabulary_size] in `logits`.
  Result<void> run_from(const Lane& lane, Position begin, Position first_logits,
                        std::vector<float>& logits, std::uint32_t step_tokens = 0);
  // Nothing that was kept is found any more.
  void forget() { ledger_->drop_all(); }

 private:
  Lanes(Compute& compute, std::uint32_t step_tokens, std::unique_ptr<kv::Ledger> ledger)
      : compute_(compute), step_tokens_(step_tokens), ledger_(std::move(ledger)) {}

  Compute& compute_;
  const std::uint32_t step_tokens_;
  std::unique_ptr<kv::Ledger> ledger_;
  std::uint64_t next_id_ = 1;
  model::BatchOutput output_;
};

}  // namespace refrain::cli
