// Scheduler: how many rows of which running sequence the next step computes. A pure function of
// what is pending; knows no blocks, tokens or requests.
//
//   budget   | d d d d | oldest prefill: half of the rest | shortest prefills first |
//              decodes: one row each, always
//
// - Decodes go first. More decodes than budget take turns, least recently run first; if a prompt
//   waits, an eighth of the budget is left to prompts, so that neither side starves the other.
// - The oldest prompt gets half of what is left, so it always gets on, however many short ones
//   come. The other half goes to the shortest remaining prompts, so they are not stuck behind it.
//   What one side does not use, the other gets.
// - Rows that want logits for prompt logprobs are few per step, because each is a row of the
//   vocabulary's width.
//
// Engine thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace refrain::engine {

struct Runnable {
  std::uint32_t pending_rows = 0;
  bool decoding = false;
  bool scores_prompt = false;   // every row of its prompt wants logits
  std::uint64_t age_order = 0;  // lower = admitted earlier
  std::uint64_t last_turn = 0;  // when it was served last, in order of service
};

constexpr std::uint32_t kMaxScoredRows = 32;  // per step, over all sequences

// The rows of one runnable in the next step; rows > 0.
struct Share {
  std::size_t runnable = 0;
  std::uint32_t rows = 0;
  bool operator==(const Share&) const = default;
};

// Shares in order of service; their rows sum up to at most `budget` (> 0). Never empty if anything
// is pending.
std::vector<Share> schedule(std::span<const Runnable> runnables, std::uint32_t budget);

}  // namespace refrain::engine
