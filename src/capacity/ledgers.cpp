// The four ledgers: see ledgers.h. Pure arithmetic; any thread.
#include "capacity/ledgers.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "base/str.h"

namespace refrain::capacity {
namespace {

// "12.3" or "0.04": three digits are enough for a person.
std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g", value);
  return text;
}

// "1.50 TFLOP".
std::string format_flop(double flop) {
  static constexpr const char* kUnits[] = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"};
  std::size_t unit = 0;
  for (; flop >= 1000 && unit + 1 < std::size(kUnits); ++unit) flop /= 1000;
  return str_cat(short_number(flop), " ", kUnits[unit]);
}

std::uint64_t sequences_that_fit(const LedgerInput& input, std::uint64_t bytes_per_token) {
  if (bytes_per_token == 0 || input.memory_bytes <= input.weight_bytes) return 0;
  const std::uint64_t beside_weights = input.memory_bytes - input.weight_bytes;
  if (beside_weights <= input.activation_bytes) return 0;
  const std::uint64_t budget = beside_weights - input.activation_bytes;
  const std::uint64_t blocks = budget / input.block_size / bytes_per_token;
  return sequences_in(blocks, input.context_tokens, input.block_size);
}

// (query, key) pairs of n tokens of which each sees at most `window` keys, itself included.
double pairs(double n, double window) {
  if (n <= window) return n * (n + 1) / 2;
  return window * (window + 1) / 2 + (n - window) * window;
}

// K and V rows of one token in all layers; equal key and value sizes make the usual
// 2 x layers x kv_heads x head_dim.
std::uint64_t stored_bytes_per_token(const LedgerInput& input) {
  if (input.kv_bytes_per_token > 0) return input.kv_bytes_per_token;
  const std::uint64_t values_per_token = std::uint64_t{input.layer_count} * input.kv_head_count *
                                         (std::uint64_t{input.key_dim} + input.value_dim);
  return static_cast<std::uint64_t>(
      std::llround(static_cast<double>(values_per_token) * input.kv_bytes_per_value));
}

}  // namespace

std::uint64_t blocks_for(std::uint64_t tokens, std::uint32_t block_size) {
  return tokens / block_size + (tokens % block_size > 0 ? 1 : 0);
}

std::uint32_t blocks_in(std::uint64_t budget_bytes, std::uint64_t kv_bytes_per_token,
                        std::uint32_t block_size) {
  constexpr std::uint64_t kMostSlots = std::uint64_t{1} << 31U;
  const std::uint64_t blocks = budget_bytes / block_size / kv_bytes_per_token;
  return static_cast<std::uint32_t>(std::min(blocks, kMostSlots / block_size));
}

std::uint64_t sequences_in(std::uint64_t block_count, std::uint64_t tokens,
                           std::uint32_t block_size) {
  return tokens == 0 ? 0 : block_count / blocks_for(tokens, block_size);
}

double attention_flop(const LedgerInput& input, std::uint64_t tokens) {
  const auto n = static_cast<double>(tokens);
  const double everything = input.layer_count - input.windowed_layer_count;
  const double windowed = input.windowed_layer_count;
  const double layer_pairs =
      everything * pairs(n, n) + windowed * pairs(n, static_cast<double>(input.window_tokens));
  // Two operations for each dimension, of the keys and of the values.
  return 2.0 * input.head_count * static_cast<double>(input.key_dim + input.value_dim) *
         layer_pairs;
}

double attention_unit_tokens(const LedgerInput& input) {
  constexpr double kAttentionSlowness = 1.5;  // time per FLOP, products of weights = 1
  const double parameters = static_cast<double>(
      input.prompt_parameter_count > 0 ? input.prompt_parameter_count : input.parameter_count);
  const double flop_per_context_token = 2.0 * input.head_count *
                                        static_cast<double>(input.key_dim + input.value_dim) *
                                        (input.layer_count - input.windowed_layer_count);
  if (flop_per_context_token <= 0) return 0;
  return 2.0 * parameters / (kAttentionSlowness * flop_per_context_token);
}

ReadCost read_cost(const LedgerInput& input) {
  const std::uint64_t per_token = stored_bytes_per_token(input);
  ReadCost cost{
      .weight_bytes = input.read_weight_bytes > 0 ? input.read_weight_bytes : input.weight_bytes,
      .kv_bytes_per_token = per_token,
      .window_tokens = input.window_tokens};
  if (input.windowed_layer_count > 0)
    cost.local_bytes_per_token = per_token / input.layer_count * input.windowed_layer_count;
  return cost;
}

FourLedgers compute_ledgers(const LedgerInput& input) {
  FourLedgers ledgers;
  const ReadCost reads = read_cost(input);
  ledgers.kv_bytes_per_token = reads.kv_bytes_per_token;
  ledgers.kv_bytes_per_sequence = ledgers.kv_bytes_per_token * input.context_tokens;
  if (input.weight_bytes > 0)
    ledgers.kv_share_of_weights = static_cast<double>(ledgers.kv_bytes_per_sequence) /
                                  static_cast<double>(input.weight_bytes);
  ledgers.decode_read_bytes_empty = reads.weight_bytes;
  ledgers.decode_read_bytes_full = reads.weight_bytes + reads.kv_bytes(input.context_tokens);
  ledgers.prefill_flop =
      2.0 * static_cast<double>(input.parameter_count) * static_cast<double>(input.context_tokens);
  ledgers.attention_flop = attention_flop(input, input.context_tokens);
  ledgers.sequences = sequences_that_fit(input, ledgers.kv_bytes_per_token);
  return ledgers;
}

namespace {

std::string describe_capacity(const LedgerInput& input, const FourLedgers& ledgers) {
  std::string text = str_cat("capacity     ", format_bytes(ledgers.kv_bytes_per_token),
                             " of KV per token, ", format_bytes(ledgers.kv_bytes_per_sequence),
                             " for ", input.context_tokens, " tokens");
  if (input.weight_bytes > 0)
    text += str_cat(" (", short_number(100 * ledgers.kv_share_of_weights), " % of the weights)");
  return text + "\n";
}

std::string describe_bandwidth(const LedgerInput& input, const FourLedgers& ledgers) {
  if (input.weight_bytes == 0)
    return str_cat("bandwidth    each generated token reads the weights and, at full context, ",
                   format_bytes(ledgers.decode_read_bytes_full), "\n");
  std::string text = str_cat("bandwidth    each generated token reads ",
                             format_bytes(ledgers.decode_read_bytes_empty), " at the start, ",
                             format_bytes(ledgers.decode_read_bytes_full), " at full context");
  const double bandwidth = input.read_bandwidth_bytes_per_s;
  if (bandwidth > 0)
    text += str_cat(": reading alone allows ",
                    short_number(bandwidth / static_cast<double>(ledgers.decode_read_bytes_empty)),
                    " and ",
                    short_number(bandwidth / static_cast<double>(ledgers.decode_read_bytes_full)),
                    " tokens/s for one sequence");
  return text + "\n";
}

std::string describe_compute(const LedgerInput& input, const FourLedgers& ledgers) {
  std::string text = "compute      ";
  if (input.parameter_count > 0) {
    text +=
        str_cat(format_flop(ledgers.prefill_flop), " to prefill ", input.context_tokens, " tokens");
  } else {
    text += "2 FLOP for each parameter and prompt token";
  }
  if (ledgers.attention_flop > 0)
    text += str_cat(", attention ", format_flop(ledgers.attention_flop), " more");
  return text + "\n";
}

std::string describe_concurrency(const LedgerInput& input, const FourLedgers& ledgers) {
  if (input.memory_bytes == 0)
    return "concurrency  unknown: it is not said how much memory there is\n";
  return str_cat("concurrency  ", ledgers.sequences,
                 ledgers.sequences == 1 ? " sequence" : " sequences", " of ", input.context_tokens,
                 " tokens ", ledgers.sequences == 1 ? "fits" : "fit",
                 " beside weights and activations in ", format_bytes(input.memory_bytes), "\n");
}

}  // namespace

std::string describe(const LedgerInput& input, const FourLedgers& ledgers) {
  return describe_capacity(input, ledgers) + describe_bandwidth(input, ledgers) +
         describe_compute(input, ledgers) + describe_concurrency(input, ledgers);
}

}  // namespace refrain::capacity
