// IdleWork: what an engine does while nobody waits: it computes exactly what was answered over
// approximate context, so that the next turn finds exact state, and compares both (audit). One
// answer at a time, in small steps; pausing loses nothing, since what is computed is published.
// Owned by the engine; engine thread.
//
//   an approximate answer ends -> add() ... nobody waits: step(), step(), ... -> its audit
//                                           somebody comes: pause()
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/audit_book.h"
#include "kv/ledger.h"
#include "model/batch.h"
#include "model/executor.h"

namespace refrain::engine {

struct ApproximateAnswer {
  kv::CacheSpace space{};
  TokenList tokens;                 // the prompt and those tokens of the answer that have K/V
  std::uint32_t prompt_tokens = 0;  // of them
  std::vector<float> logits;        // [vocabulary_size] of the prompt's last row
  double allowed = 0;               // nats
};

class IdleWork {
 public:
  static constexpr std::size_t kMaxWaiting = 16;  // answers; the oldest go first
  static constexpr std::uint32_t kStepRows = 64;  // few, since who comes waits for a whole step

  // Both outlive it.
  IdleWork(kv::Ledger& ledger, model::Executor& executor) : ledger_(ledger), executor_(executor) {}

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
  Result<void> run_rows(std::uint32_t begin, std::uint32_t end, Tick now);

  kv::Ledger& ledger_;
  model::Executor& executor_;
  std::deque<ApproximateAnswer> waiting_;
  std::uint64_t computed_tokens_ = 0;
  std::optional<SequenceId> running_;  // computes waiting_.front()
  model::Batch batch_;
  model::BatchOutput output_;
};

}  // namespace refrain::engine
