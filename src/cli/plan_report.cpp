// See plan_report.h.
#include "cli/plan_report.h"

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/str.h"

namespace refrain::cli {
namespace {

using capacity::FormatPlan;
using capacity::Plan;
using nlohmann::ordered_json;

// "12.3", "0.0412", "105000": three digits of a fraction, all of a whole.
std::string digits(double value) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), value >= 1000 ? "%.0f" : "%.3g", value);
  return text.data();
}

// "2.81 ms", "1.5 s".
std::string duration(double seconds) {
  return seconds < 1 ? str_cat(digits(1e3 * seconds), " ms") : str_cat(digits(seconds), " s");
}

std::string count_text(double count) {
  static constexpr std::array<std::string_view, 4> kUnits = {"", " k", " M", " B"};
  std::size_t unit = 0;
  for (; count >= 1000 && unit + 1 < kUnits.size(); ++unit) count /= 1000;
  return str_cat(digits(count), kUnits[unit]);
}

std::string head_line(const PlanRequest& request, const Plan& plan) {
  const model::ModelShape& shape = plan.input.shape;
  std::string line = str_cat("model        ", request.model.empty() ? "by hand" : request.model,
                             ": ", shape.layer_count, " layers, ", shape.kv_head_count,
                             " key and value heads of ", shape.key_dim);
  if (shape.parameter_count > 0)
    line += str_cat(", ", count_text(static_cast<double>(shape.parameter_count)), " parameters");
  if (shape.weight_bytes > 0) line += str_cat(", ", format_bytes(shape.weight_bytes), " weights");
  if (!request.quantization.empty()) line += str_cat(" (", request.quantization, ")");
  return str_cat(line, "; KV format ", kernels::kv_format_name(plan.input.format), ", blocks of ",
                 plan.input.block_size, "\n");
}

std::string window_line(const Plan& plan) {
  const capacity::LedgerInput& ledger = plan.ledger;
  if (ledger.windowed_layer_count == 0) return "";
  return str_cat("windows      ", ledger.windowed_layer_count, " of ", ledger.layer_count,
                 " layers read no more than ", ledger.window_tokens,
                 " tokens; all of them keep the whole context, so that any beginning can be "
                 "reused\n");
}

std::string budget_line(const PlanRequest& request, const Plan& plan) {
  if (!plan.input.kv_budget_bytes)
    return str_cat("budget       unknown: ", request.budget_from,
                   request.budget_from.empty() ? "" : "; ", "give --memory, or --kv-budget\n");
  const std::uint64_t tokens = std::uint64_t{plan.chosen.block_count} * plan.input.block_size;
  std::string line = str_cat("budget       ", format_bytes(*plan.input.kv_budget_bytes),
                             " of context (", request.budget_from, "): ", plan.chosen.block_count,
                             " blocks, ", tokens, " tokens\n");
  return line;
}

std::string time_line(const PlanRequest& request, const Plan& plan) {
  std::string line = "time         ";
  const FormatPlan& chosen = plan.chosen;
  if (chosen.tpot_full_s > 0) {
    line += str_cat("reading alone takes ", duration(chosen.tpot_empty_s),
                    " per token at the start, ", duration(chosen.tpot_full_s), " at full context (",
                    digits(plan.input.speed.read_bytes_per_s / 1e9), " GB/s, ",
                    request.bandwidth_from, ")");
  } else {
    line += plan.input.shape.weight_bytes == 0 && plan.input.speed.read_bytes_per_s > 0
                ? "per token unknown: give --weights"
                : "per token unknown: give --bandwidth, or --measure";
  }
  if (plan.prefill_s > 0) {
    line +=
        str_cat("; ", duration(plan.prefill_s), " to prefill (",
                digits(plan.input.speed.flop_per_s / 1e9), " GFLOP/s, ", request.flop_from, ")");
  } else {
    line += plan.input.shape.parameter_count == 0 && plan.input.speed.flop_per_s > 0
                ? "; prefill unknown: give --params"
                : "; prefill unknown: give --gflops, or --measure";
  }
  return line + "\n";
}

std::string dialogue_line(const Plan& plan) {
  if (!plan.dialogue) return "";
  const capacity::RoundPlan& rounds = *plan.dialogue;
  std::string share;
  if (rounds.share_of_weights > 0)
    share = str_cat(" (", digits(100 * rounds.share_of_weights), " % of the weights)");
  return str_cat("dialogue     each round of ", plan.input.round_tokens, " tokens adds ",
                 format_bytes(rounds.kv_bytes), share, "; ", rounds.rounds, " rounds fill ",
                 plan.input.context_tokens,
                 " tokens; computed in all: ", digits(rounds.computed_with_reuse),
                 " tokens with reuse, ", digits(rounds.computed_without), " without\n");
}

// Cells of the table, the first one to the left.
std::string table_row(const std::array<std::string, 7>& cells) {
  static constexpr std::array<int, 7> kWidths = {-10, 11, 14, 12, 11, 14, 14};
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), "%*s", kWidths[i], cells[i].c_str());
    line += text.data();
  }
  return line + "\n";
}

std::string table(const Plan& plan) {
  std::string text = table_row({"KV format", "per token", "per sequence", "of weights", "sequences",
                                "read at full", "TPOT at full"});
  for (const FormatPlan& format : plan.formats) {
    const bool has_weights = plan.input.shape.weight_bytes > 0;
    text += table_row(
        {kernels::kv_format_name(format.format), format_bytes(format.ledgers.kv_bytes_per_token),
         format_bytes(format.ledgers.kv_bytes_per_sequence),
         has_weights ? str_cat(digits(100 * format.ledgers.kv_share_of_weights), " %") : "-",
         plan.input.kv_budget_bytes ? str_cat(format.ledgers.sequences) : "-",
         format_bytes(format.ledgers.decode_read_bytes_full),
         format.tpot_full_s > 0 ? duration(format.tpot_full_s) : "-"});
  }
  return text;
}

// ---- JSON

// A number, or null where 0 means unknown.
ordered_json known(double value) {
  return value > 0 ? ordered_json(value) : ordered_json(nullptr);
}
ordered_json known(std::uint64_t value) {
  return value > 0 ? ordered_json(value) : ordered_json(nullptr);
}
ordered_json sequences_of(const Plan& plan, const FormatPlan& format) {
  return plan.input.kv_budget_bytes ? ordered_json(format.ledgers.sequences)
                                    : ordered_json(nullptr);
}

ordered_json format_json(const Plan& plan, const FormatPlan& format) {
  const capacity::FourLedgers& ledgers = format.ledgers;
  return {{"kv_format", kernels::kv_format_name(format.format)},
          {"kv_bytes_per_token", ledgers.kv_bytes_per_token},
          {"kv_bytes_per_sequence", ledgers.kv_bytes_per_sequence},
          {"kv_share_of_weights", known(ledgers.kv_share_of_weights)},
          {"sequences", sequences_of(plan, format)},
          {"kv_read_bytes_full", format.kv_read_bytes},
          {"decode_read_bytes_full", ledgers.decode_read_bytes_full},
          {"tpot_empty_ms", known(1e3 * format.tpot_empty_s)},
          {"tpot_full_ms", known(1e3 * format.tpot_full_s)}};
}

ordered_json model_json(const PlanRequest& request, const Plan& plan) {
  const model::ModelShape& shape = plan.input.shape;
  return {{"name", request.model},
          {"quantization", request.quantization},
          {"parameters", known(shape.parameter_count)},
          {"weight_bytes", known(shape.weight_bytes)},
          {"layers", shape.layer_count},
          {"heads", known(std::uint64_t{shape.head_count})},
          {"kv_heads", shape.kv_head_count},
          {"key_dim", shape.key_dim},
          {"value_dim", shape.value_dim},
          {"windowed_layers", plan.ledger.windowed_layer_count},
          {"window_tokens", plan.ledger.window_tokens}};
}

ordered_json ledgers_json(const PlanRequest& request, const Plan& plan) {
  const capacity::FourLedgers& ledgers = plan.chosen.ledgers;
  const bool has_budget = plan.input.kv_budget_bytes.has_value();
  ordered_json concurrency = {{"kv_budget_bytes", nullptr}, {"budget_from", nullptr}};
  if (has_budget)
    concurrency = {{"kv_budget_bytes", *plan.input.kv_budget_bytes},
                   {"budget_from", request.budget_from}};
  concurrency["reserve_bytes"] = plan.input.activation_bytes;
  concurrency["blocks"] =
      has_budget ? ordered_json(plan.chosen.block_count) : ordered_json(nullptr);
  concurrency["sequences"] = sequences_of(plan, plan.chosen);
  return {{"capacity",
           {{"kv_bytes_per_token", ledgers.kv_bytes_per_token},
            {"kv_bytes_per_sequence", ledgers.kv_bytes_per_sequence},
            {"kv_share_of_weights", known(ledgers.kv_share_of_weights)}}},
          {"bandwidth",
           {{"read_bytes_empty", ledgers.decode_read_bytes_empty},
            {"read_bytes_full", ledgers.decode_read_bytes_full}}},
          {"compute",
           {{"prefill_flop", known(ledgers.prefill_flop)},
            {"attention_flop", known(ledgers.attention_flop)}}},
          {"concurrency", std::move(concurrency)}};
}

ordered_json dialogue_json(const Plan& plan) {
  if (!plan.dialogue) return nullptr;
  return {{"round_tokens", plan.input.round_tokens},
          {"kv_bytes_per_round", plan.dialogue->kv_bytes},
          {"share_of_weights", known(plan.dialogue->share_of_weights)},
          {"rounds", plan.dialogue->rounds},
          {"computed_tokens_with_reuse", plan.dialogue->computed_with_reuse},
          {"computed_tokens_without", plan.dialogue->computed_without}};
}

ordered_json speed_json(const PlanRequest& request, const Plan& plan) {
  const capacity::MachineSpeed& speed = plan.input.speed;
  return {{"read_bytes_per_s", known(speed.read_bytes_per_s)},
          {"bandwidth_from", request.bandwidth_from},
          {"flop_per_s", known(speed.flop_per_s)},
          {"attention_flop_per_s", known(speed.attention_flop_per_s)},
          {"flop_from", request.flop_from},
          {"tpot_empty_ms", known(1e3 * plan.chosen.tpot_empty_s)},
          {"tpot_full_ms", known(1e3 * plan.chosen.tpot_full_s)},
          {"prefill_ms", known(1e3 * plan.prefill_s)}};
}

}  // namespace

std::string plan_text(const PlanRequest& request, const Plan& plan) {
  return head_line(request, plan) + capacity::describe(plan.ledger, plan.chosen.ledgers) +
         window_line(plan) + budget_line(request, plan) + time_line(request, plan) +
         dialogue_line(plan) + "\n" + table(plan);
}

std::string plan_json(const PlanRequest& request, const Plan& plan) {
  ordered_json formats = ordered_json::array();
  for (const FormatPlan& format : plan.formats) formats.push_back(format_json(plan, format));
  const ordered_json report = {{"model", model_json(request, plan)},
                               {"context_tokens", plan.input.context_tokens},
                               {"kv_format", kernels::kv_format_name(plan.input.format)},
                               {"block_size", plan.input.block_size},
                               {"ledgers", ledgers_json(request, plan)},
                               {"speed", speed_json(request, plan)},
                               {"dialogue", dialogue_json(plan)},
                               {"formats", std::move(formats)}};
  return report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace refrain::cli
