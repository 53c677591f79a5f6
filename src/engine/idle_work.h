// IdleWork: what an engine does while nobody waits: it computes exactly what was answered over
// approximate or trimmed context, so that the next turn finds exact state, and compares the first
// token (audit); where contexts are trimmed by looks that hold for later turns, it looks, too. One
// answer at a time, in small steps; pausing loses nothing, since what is computed is published.
// Owned by the engine; engine thread.
//
//   an approximate answer ends -> add() ... nobody waits: step(), step(), ... -> its audit, scores
//                                           somebody comes: pause()
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/audit_book.h"
#include "engine/context_trim.h"
#include "engine/score_store.h"
#include "kv/ledger.h"
#include "model/batch.h"
#include "model/executor.h"
#include "model/open_tile.h"

namespace refrain::engine {

struct ApproximateAnswer {
  kv::CacheSpace space{};
  TokenList tokens;                 // the prompt and those tokens of the answer that have K/V
  std::uint32_t prompt_tokens = 0;  // of them
  std::vector<float> logits;        // [vocabulary_size] of the prompt's last row; none: no audit
  double allowed = 0;               // nats
  const model::TrimPolicy* look = nullptr;  // whose scores are wanted
  bool is_computed = false;                 // all of it, once: what is left is the look
};

class IdleWork {
 public:
  static constexpr std::size_t kMaxWaiting = 16;  // answers; the oldest go first
  static constexpr std::uint32_t kStepRows = 64;  // few, since who comes waits for a whole step

  // All outlive it.
  IdleWork(kv::Ledger& ledger, model::Executor& executor, const TrimParts& trim, ScoreStore& scores)
      : ledger_(ledger), executor_(executor), trim_parts_(trim), scores_(scores) {}

  void add(ApproximateAnswer answer);
  std::uint64_t computed_tokens() const { return computed_tokens_; }  // since the start
  bool pending() const { return !waiting_.empty(); }
  // Computes a few more rows; the audit of an answer whose prompt's end they reach. An error drops
  // the answer: it was a service, nobody waits for it. `id` is used if a sequence begins.
  Result<std::optional<Audit>> step(SequenceId id, Tick now);
  // Gives blocks back; what is computed stays, and the next step goes on behind it.
  void pause(Tick now);

 private:
  bool begin(SequenceId id, Tick now);
  void end(Tick now);
  // A piece of the look that is wanted; true if there is no more of it.
  Result<bool> look(Tick now);
  Result<void> run_rows(std::uint32_t begin, std::uint32_t end, Tick now);

  kv::Ledger& ledger_;
  model::Executor& executor_;
  std::deque<ApproximateAnswer> waiting_;
  std::uint64_t computed_tokens_ = 0;
  const TrimParts& trim_parts_;
  ScoreStore& scores_;
  std::optional<SequenceId> running_;  // computes waiting_.front()
  model::OpenTile open_tile_;          // its own
  std::unique_ptr<ContextTrim> trim_;  // looks at it, once it is computed
  model::Batch batch_;
  model::BatchOutput output_;
};

}  // namespace refrain::engine
