// A trial of `refrain eval exact`: a random history of turns that begin alike, are edited, forked
// and repeated, made from a seed and a number alone. Pure data and functions; any thread.
//
//   turn 0   [ fresh ............ | reply .... ]
//   turn 1   [ kept of turn 0: prompt and reply ][ fresh .. | reply ]      the next turn of a chat
//   turn 2   [ kept .... ][ fresh ...... | reply ]                         an edit or a fork
//   turn 3   [ kept: the prompt of turn 2        | reply ]                 asked again
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/rng.h"

namespace refrain::cli {

struct TrialTurn {
  std::optional<std::size_t> parent;  // an earlier turn
  std::uint32_t kept = 0;             // tokens of the parent's prompt and reply it begins with
  TokenList fresh;                    // prompt tokens behind those
  std::uint32_t reply = 0;            // tokens generated behind the prompt, greedily

  std::uint32_t prompt_length() const { return kept + static_cast<std::uint32_t>(fresh.size()); }
  std::uint32_t length() const { return prompt_length() + reply; }
};

// Who runs the turns: a schedule drawn at random over the ledger, or the engine.
enum class TrialWay { kLedger, kEngine };

struct TrialPlan {
  std::uint64_t number = 0;
  std::vector<TrialTurn> turns;  // at least one
  bool row_by_row = false;       // the reference computes its prompts so, not in one chunk
  TrialWay way = TrialWay::kLedger;
  std::uint64_t schedule_seed = 0;
};

struct TrialLimits {
  std::uint32_t vocabulary_size = 0;
  std::uint32_t max_length = 0;    // tokens of one turn, at least 2
  std::uint32_t token_budget = 0;  // tokens that the reference of the longest trials computes;
                                   // most trials take an eighth of it
};

// The same arguments give the same trial.
TrialPlan make_trial(std::uint64_t seed, std::uint64_t number, const TrialLimits& limits);

// 1 .. most; lengths beside the borders of blocks (16) and attention splits (256) are favoured.
std::uint32_t border_length(Rng& rng, std::uint32_t most);
TokenList random_tokens(Rng& rng, std::size_t count, std::uint32_t vocabulary_size);

}  // namespace refrain::cli
