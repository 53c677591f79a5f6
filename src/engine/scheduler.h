// Scheduler: how many rows of which running sequence the next step computes. Knows no blocks,
// tokens or requests; remembers nothing but what the two classes owe each other.
//
//   budget   | d d d d | short prompts                        | long prompts: at most their share |
//            | d d d d | oldest: half of the rest | shortest first |      (where no class is long)
//              decodes: one row each, always
//
// - Decodes go first. More decodes than budget take turns, least recently run first; if a prompt
//   waits, an eighth of the budget is left to prompts, so that neither side starves the other. One
//   that is throttled runs in every second step only while others decode.
// - Inside a class the oldest prompt gets half of what is left, so it always gets on, however many
//   short ones come. The other half goes to the shortest remaining prompts, so they are not stuck
//   behind it. What one side does not use, the other gets.
// - While short sequences are about (or were a moment ago), long prompts get at most their share of
//   the step, by cost: a row behind much context takes several times as long as one behind little,
//   and a short request that comes in the middle of a step waits for its end. A burst of short
//   prompts may take the whole step until a budget of rows is owed to the long ones; from then on
//   each class has its share.
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
  std::uint32_t depth = 0;  // rows of its sequence in front of the pending ones
  bool decoding = false;
  bool scores_prompt = false;   // every row of its prompt wants logits
  bool is_long = false;         // of the long class
  bool throttled = false;       // out of line: others need not wait for it
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

struct StepRules {
  std::uint32_t budget = 0;          // rows of a step; > 0
  std::uint32_t long_percent = 100;  // of the budget, for long prompts beside short sequences
  double attention_unit_tokens = 0;  // context whose attention takes as long as the rest of a row;
                                     // 0 = rows cost the same everywhere
};

// What `rows` rows from `depth` on cost, in rows without context; and how many rows behind `depth`
// cost at most that.
double rows_cost(std::uint32_t rows, std::uint32_t depth, double attention_unit_tokens);
std::uint32_t rows_within(double cost, std::uint32_t depth, double attention_unit_tokens);

class Scheduler {
 public:
  static constexpr std::uint32_t kShortMemorySteps = 64;  // so long short ones are about
  static constexpr std::uint32_t kMinLongRows = 8;        // fewer would not pay for a step

  explicit Scheduler(const StepRules& rules);

  // Shares in order of service; their rows sum up to at most the budget. Never empty if anything is
  // pending. Steps forward: call it once per step.
  std::vector<Share> next(std::span<const Runnable> runnables);

 private:
  const StepRules rules_;
  std::uint64_t steps_ = 0;
  std::uint32_t steps_without_short_ = kShortMemorySteps;
  double owed_cost_ = 0;  // to long prompts; at most the budget
};

}  // namespace refrain::engine
