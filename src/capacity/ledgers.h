// The four ledgers (REQUIREMENTS B1): what a model and its context cost, from shape and budget
// alone. Pure arithmetic; any thread. Formulas:
//
//   capacity     2 x layers x kv_heads x head_dim x bytes per value              bytes per token
//   bandwidth    weight bytes + KV bytes of the context                           read per decoded
//   token compute      2 x parameters x prompt tokens                                   FLOP of a
//   prefill concurrency  (memory - weights - activations) / KV bytes of one sequence      sequences
#pragma once

#include <cstdint>
#include <string>

namespace refrain::capacity {

struct LedgerInput {
  std::uint64_t parameter_count = 0;
  std::uint64_t weight_bytes = 0;
  std::uint32_t layer_count = 0;
  std::uint32_t kv_head_count = 0;
  std::uint32_t key_dim = 0;
  std::uint32_t value_dim = 0;
  double kv_bytes_per_value = 2.0;
  std::uint64_t kv_bytes_per_token = 0;  // as the arena stores it; 0 = from the numbers above
  std::uint64_t memory_bytes = 0;  // the KV budget + weights + activations together
  std::uint64_t activation_bytes = 0;
  std::uint32_t context_tokens = 0;       // of one sequence
  double read_bandwidth_bytes_per_s = 0;  // 0 = unknown
};

struct FourLedgers {
  std::uint64_t kv_bytes_per_token = 0;
  std::uint64_t kv_bytes_per_sequence = 0;
  double kv_share_of_weights = 0;             // kv_bytes_per_sequence / weight_bytes
  std::uint64_t decode_read_bytes_empty = 0;  // at depth 0
  std::uint64_t decode_read_bytes_full = 0;   // at context_tokens
  double prefill_flop = 0;                    // for context_tokens
  std::uint64_t sequences = 0;                // that fit at full context
};

FourLedgers compute_ledgers(const LedgerInput& input);
// Four lines for the start-up output.
std::string describe(const LedgerInput& input, const FourLedgers& ledgers);

}  // namespace refrain::capacity
