// Planner: what a model costs at a context (REQUIREMENTS B2): the four ledgers, the same for every
// KV format beside each other, the growth of a dialogue, and the times that follow where the speed
// of a machine is known. Pure arithmetic on the numbers of ledgers.h; any thread.
//
//   tpot       bytes that a decoded token reads / read bandwidth            a bound: reading alone
//   prefill    2 x parameters of the layers x tokens / operations per s + the same of attention
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "capacity/ledgers.h"
#include "kernels/kv_layout.h"
#include "model/shape.h"

namespace refrain::capacity {

struct MachineSpeed {
  double read_bytes_per_s = 0;      // 0 = unknown
  double flop_per_s = 0;            // of products with the weights; likewise
  double attention_flop_per_s = 0;  // 0 = as flop_per_s
};

struct PlanInput {
  model::ModelShape shape;  // the counts that ledgers are made of; weights may be unknown (0)
  kernels::KvFormat format = kernels::KvFormat::kF16;
  std::uint32_t context_tokens = 0;
  std::uint32_t block_size = 16;
  std::uint32_t round_tokens = 0;  // question and answer of a dialogue; 0 = no dialogue
  // What K/V may take; none = unknown, so that concurrency is.
  std::optional<std::uint64_t> kv_budget_bytes;
  std::uint64_t activation_bytes = 0;
  MachineSpeed speed;
};

// One row of the comparison.
struct FormatPlan {
  kernels::KvFormat format = kernels::KvFormat::kF16;
  FourLedgers ledgers;              // its `sequences` count only with a budget
  std::uint32_t block_count = 0;    // that the budget holds
  std::uint64_t kv_read_bytes = 0;  // of decode_read_bytes_full
  double tpot_empty_s = 0;          // 0 = unknown
  double tpot_full_s = 0;
};

// A dialogue that grows by `round_tokens` each round, up to the context.
struct RoundPlan {
  std::uint64_t kv_bytes = 0;   // added by each round
  double share_of_weights = 0;  // of these bytes; 0 = weights unknown
  std::uint64_t rounds = 0;     // until the context is full
  // Tokens computed over all these rounds: with exact reuse each once, without it the whole history
  // again in each round.
  double computed_with_reuse = 0;
  double computed_without = 0;
};

struct Plan {
  PlanInput input;
  LedgerInput ledger;               // of input.format, for describe()
  FormatPlan chosen;                // likewise
  std::vector<FormatPlan> formats;  // all there are, in the order of kernels::kv_formats()
  std::optional<RoundPlan> dialogue;
  double prefill_s = 0;  // 0 = unknown
};

// kInvalidArgument if the K/V of one sequence are more than 64 bits can count (field --context).
Result<Plan> make_plan(const PlanInput& input);

}  // namespace refrain::capacity
