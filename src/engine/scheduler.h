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

#include <cstdint>
#include <span>
#include <vector>

namespace refrain::engine {

struct Runnable {
  std::uint32_t pending_rows = 0;
  bool decoding = false;
  bool scores_prompt = false;   // every row of its prompt wants logits
  std::uint64_t age_order = 0;  // lower = admitted earlier
  std::uint64_t last_step = 0;  // step that ran it last
};

constexpr std::uint32_t kMaxScoredRows = 32;  // per step, over all sequences

// Rows per runnable, in the same order; their sum is at most `budget` (> 0). Never all 0 if
// anything is pending.
std::vector<std::uint32_t> schedule(std::span<const Runnable> runnables, std::uint32_t budget);

}  // namespace refrain::engine
