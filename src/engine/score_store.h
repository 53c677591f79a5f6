// ScoreStore: what looks at contexts have found, for the next turn. Only of policies whose scores
// do not depend on what comes later (TrimLook::kRepetition): there the scores of a beginning are
// those of every context that begins so, and only what is new is looked at. Bounded; the entry used
// least recently goes first. Owned by the engine; engine thread.
#pragma once

#include <cstddef>
#include <list>

#include "base/ids.h"
#include "kv/ledger.h"
#include "model/trim_policy.h"

namespace refrain::engine {

class ScoreStore {
 public:
  explicit ScoreStore(std::size_t max_bytes = std::size_t{64} << 20U) : max_bytes_(max_bytes) {}

  // Scores of the longest beginning of `context` that is known; empty if none is.
  model::TrimScores find(const kv::CacheSpace& space, const model::TrimPolicy& policy,
                         const TokenList& context);
  // In place of what is a beginning of it. `scores.length` is that of `context`.
  void put(const kv::CacheSpace& space, const model::TrimPolicy& policy, TokenList context,
           model::TrimScores scores);

  std::size_t bytes() const { return bytes_; }
  static bool keeps(const model::TrimPolicy& policy) {
    return policy.look == model::TrimLook::kRepetition;
  }

 private:
  struct Entry {
    kv::CacheSpace space{};
    const model::TrimPolicy* policy = nullptr;
    TokenList context;
    model::TrimScores scores;
    std::size_t bytes() const {
      return context.size() * sizeof(TokenId) + scores.values.size() * sizeof(float);
    }
  };

  const std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  std::list<Entry> entries_;  // used last first
};

}  // namespace refrain::engine
