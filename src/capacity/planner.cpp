// See planner.h.
#include "capacity/planner.h"

#include <algorithm>
#include <limits>

#include "base/str.h"
#include "capacity/model_ledger.h"

namespace refrain::capacity {
namespace {

// Weights and K/V are added up, so both stay well inside 64 bits.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 60U;

LedgerInput ledger_of(const PlanInput& input, kernels::KvFormat format) {
  LedgerInput ledger = ledger_input(input.shape, format);
  ledger.activation_bytes = input.activation_bytes;
  ledger.context_tokens = input.context_tokens;
  ledger.block_size = input.block_size;
  if (input.kv_budget_bytes)
    ledger.memory_bytes = *input.kv_budget_bytes + ledger.weight_bytes + ledger.activation_bytes;
  return ledger;
}

FormatPlan plan_format(const PlanInput& input, kernels::KvFormat format) {
  const LedgerInput ledger = ledger_of(input, format);
  FormatPlan made{.format = format, .ledgers = compute_ledgers(ledger)};
  made.kv_read_bytes = read_cost(ledger).kv_bytes(input.context_tokens);
  if (input.kv_budget_bytes) {
    made.block_count =
        blocks_in(*input.kv_budget_bytes, made.ledgers.kv_bytes_per_token, input.block_size);
    made.ledgers.sequences = sequences_in(made.block_count, input.context_tokens, input.block_size);
  }
  const double bandwidth = input.speed.read_bytes_per_s;
  if (bandwidth > 0 && ledger.weight_bytes > 0) {
    made.tpot_empty_s = static_cast<double>(made.ledgers.decode_read_bytes_empty) / bandwidth;
    made.tpot_full_s = static_cast<double>(made.ledgers.decode_read_bytes_full) / bandwidth;
  }
  return made;
}

RoundPlan plan_rounds(const PlanInput& input, const FormatPlan& chosen) {
  const std::uint64_t tokens = input.round_tokens;
  RoundPlan made{.kv_bytes = chosen.ledgers.kv_bytes_per_token * tokens,
                 .rounds = input.context_tokens / tokens};
  if (input.shape.weight_bytes > 0)
    made.share_of_weights =
        static_cast<double>(made.kv_bytes) / static_cast<double>(input.shape.weight_bytes);
  const auto rounds = static_cast<double>(made.rounds);
  made.computed_with_reuse = rounds * static_cast<double>(tokens);
  made.computed_without = rounds * (rounds + 1) / 2 * static_cast<double>(tokens);
  return made;
}

double predict_prefill_s(const Plan& plan) {
  const MachineSpeed& speed = plan.input.speed;
  const LedgerInput& ledger = plan.ledger;
  if (speed.flop_per_s <= 0 || ledger.parameter_count == 0) return 0;
  const std::uint64_t parameters =
      ledger.prompt_parameter_count > 0 ? ledger.prompt_parameter_count : ledger.parameter_count;
  const double products =
      2.0 * static_cast<double>(parameters) * static_cast<double>(ledger.context_tokens);
  const double attention_speed =
      speed.attention_flop_per_s > 0 ? speed.attention_flop_per_s : speed.flop_per_s;
  return products / speed.flop_per_s + plan.chosen.ledgers.attention_flop / attention_speed;
}

}  // namespace

Result<Plan> make_plan(const PlanInput& input) {
  CHECK(input.context_tokens > 0 && input.block_size > 0 && input.shape.layer_count > 0 &&
            input.shape.kv_head_count > 0 && input.shape.key_dim > 0,
        "a plan without a model or a context");
  Plan plan{.input = input};
  for (const kernels::KvFormatInfo& info : kernels::kv_formats()) {
    const kernels::KvFormat format = info.format;
    const std::uint64_t per_token = ledger_input(input.shape, format).kv_bytes_per_token;
    if (per_token > kMostBytes / input.context_tokens)
      return Error{Code::kInvalidArgument,
                   str_cat(input.context_tokens, " tokens of ", format_bytes(per_token),
                           " each are more than can be counted"),
                   "lower --context", "--context"};
    plan.formats.push_back(plan_format(input, format));
    if (format == input.format) plan.chosen = plan.formats.back();
  }
  if (input.round_tokens > 0) plan.dialogue = plan_rounds(input, plan.chosen);
  plan.ledger = ledger_of(input, input.format);
  plan.ledger.read_bandwidth_bytes_per_s = input.speed.read_bytes_per_s;
  plan.prefill_s = predict_prefill_s(plan);
  return plan;
}

}  // namespace refrain::capacity
