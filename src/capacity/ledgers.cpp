// The four ledgers: see ledgers.h. Pure arithmetic; any thread.
#include "capacity/ledgers.h"

#include <cmath>
#include <cstdio>

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

std::uint64_t sequences_that_fit(const LedgerInput& input, std::uint64_t bytes_per_sequence) {
  if (bytes_per_sequence == 0 || input.memory_bytes <= input.weight_bytes) return 0;
  const std::uint64_t beside_weights = input.memory_bytes - input.weight_bytes;
  if (beside_weights <= input.activation_bytes) return 0;
  return (beside_weights - input.activation_bytes) / bytes_per_sequence;
}

}  // namespace

FourLedgers compute_ledgers(const LedgerInput& input) {
  FourLedgers ledgers;
  // K and V rows of one token in all layers; equal key and value sizes make the usual
  // 2 x layers x kv_heads x head_dim.
  const std::uint64_t values_per_token = std::uint64_t{input.layer_count} * input.kv_head_count *
                                         (std::uint64_t{input.key_dim} + input.value_dim);
  ledgers.kv_bytes_per_token =
      input.kv_bytes_per_token > 0
          ? input.kv_bytes_per_token
          : static_cast<std::uint64_t>(std::llround(static_cast<double>(values_per_token) *
                                                    input.kv_bytes_per_value));
  ledgers.kv_bytes_per_sequence = ledgers.kv_bytes_per_token * input.context_tokens;
  if (input.weight_bytes > 0)
    ledgers.kv_share_of_weights = static_cast<double>(ledgers.kv_bytes_per_sequence) /
                                  static_cast<double>(input.weight_bytes);
  ledgers.decode_read_bytes_empty = input.weight_bytes;
  ledgers.decode_read_bytes_full = input.weight_bytes + ledgers.kv_bytes_per_sequence;
  ledgers.prefill_flop =
      2.0 * static_cast<double>(input.parameter_count) * static_cast<double>(input.context_tokens);
  ledgers.sequences = sequences_that_fit(input, ledgers.kv_bytes_per_sequence);
  return ledgers;
}

std::string describe(const LedgerInput& input, const FourLedgers& ledgers) {
  std::string text =
      str_cat("capacity     ", format_bytes(ledgers.kv_bytes_per_token), " of KV per token, ",
              format_bytes(ledgers.kv_bytes_per_sequence), " for ", input.context_tokens,
              " tokens (", short_number(100 * ledgers.kv_share_of_weights), " % of the weights)\n");
  text += str_cat("bandwidth    each generated token reads ",
                  format_bytes(ledgers.decode_read_bytes_empty), " at the start, ",
                  format_bytes(ledgers.decode_read_bytes_full), " at full context");
  const double bandwidth = input.read_bandwidth_bytes_per_s;
  if (bandwidth > 0 && ledgers.decode_read_bytes_empty > 0)
    text += str_cat(": at most ",
                    short_number(bandwidth / static_cast<double>(ledgers.decode_read_bytes_empty)),
                    " and ",
                    short_number(bandwidth / static_cast<double>(ledgers.decode_read_bytes_full)),
                    " tokens/s for one sequence");
  text += str_cat("\ncompute      ", format_flop(ledgers.prefill_flop), " to prefill ",
                  input.context_tokens, " tokens\n");
  text += str_cat("concurrency  ", ledgers.sequences, " sequences of ", input.context_tokens,
                  " tokens fit beside weights and activations in ",
                  format_bytes(input.memory_bytes), "\n");
  return text;
}

}  // namespace refrain::capacity
