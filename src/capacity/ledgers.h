// The four ledgers (REQUIREMENTS B1): what a model and its context cost, from shape and budget
// alone. Pure arithmetic; any thread. Formulas:
//
//   capacity     2 x layers x kv_heads x head_dim x bytes per value             bytes per token
//   bandwidth    weight bytes + KV bytes of the context                         per decoded token
//   compute      2 x parameters x prompt tokens                                 FLOP of a prefill
//   concurrency  (memory - weights - activations) / KV bytes of one sequence    sequences
//
// The start-up lines, the metrics, GET /v1/ledger and `refrain plan` all come from here.
#pragma once

#include <cstdint>
#include <string>

#include "capacity/read_cost.h"

namespace refrain::capacity {

struct LedgerInput {
  std::uint64_t parameter_count = 0;
  // Of these, multiplied with every prompt token: not those of the embedding and of the output
  // matrix, which only the last token needs; 0 = all.
  std::uint64_t prompt_parameter_count = 0;
  std::uint64_t weight_bytes = 0;
  std::uint64_t read_weight_bytes = 0;  // of these, read for every token; 0 = all
  std::uint32_t layer_count = 0;
  std::uint32_t head_count = 0;  // query heads; 0 = unknown: attention counts no FLOP
  std::uint32_t kv_head_count = 0;
  std::uint32_t key_dim = 0;
  std::uint32_t value_dim = 0;
  std::uint32_t windowed_layer_count = 0;  // layers that attend to no more than the window;
  std::uint32_t window_tokens = 0;         // the arena keeps all of the context for them, too
  double kv_bytes_per_value = 2.0;
  std::uint64_t kv_bytes_per_token = 0;  // as the arena stores it; 0 = from the numbers above
  std::uint64_t memory_bytes = 0;        // the KV budget + weights + activations together
  std::uint64_t activation_bytes = 0;
  std::uint32_t context_tokens = 0;       // of one sequence
  std::uint32_t block_size = 1;           // tokens; a sequence takes whole blocks
  double read_bandwidth_bytes_per_s = 0;  // 0 = unknown
};

struct FourLedgers {
  std::uint64_t kv_bytes_per_token = 0;
  std::uint64_t kv_bytes_per_sequence = 0;
  double kv_share_of_weights = 0;             // kv_bytes_per_sequence / weight_bytes
  std::uint64_t decode_read_bytes_empty = 0;  // at depth 0
  std::uint64_t decode_read_bytes_full = 0;   // at context_tokens
  double prefill_flop = 0;                    // for context_tokens, products of weights alone
  double attention_flop = 0;                  // what attention adds; 0 where heads are unknown
  std::uint64_t sequences = 0;                // that fit at full context
};

FourLedgers compute_ledgers(const LedgerInput& input);
ReadCost read_cost(const LedgerInput& input);

// Whole blocks that hold so many tokens.
std::uint64_t blocks_for(std::uint64_t tokens, std::uint32_t block_size);
// Blocks of an arena within the budget; at most what 2^31 token slots are, the ledger's limit.
std::uint32_t blocks_in(std::uint64_t budget_bytes, std::uint64_t kv_bytes_per_token,
                        std::uint32_t block_size);
// Sequences of that length that so many blocks hold at a time.
std::uint64_t sequences_in(std::uint64_t block_count, std::uint64_t tokens,
                           std::uint32_t block_size);
// Products of queries with keys and of weights with values when `tokens` tokens are computed, each
// behind those before it: 4 x heads x mean dim x the (query, key) pairs of each layer.
double attention_flop(const LedgerInput& input, std::uint64_t tokens);
// Context behind which attention takes about as long as the rest of a prompt's row (layers that see
// all of it; attention takes half as long again per FLOP as products of weights); 0 = unknown.
double attention_unit_tokens(const LedgerInput& input);

// Four lines for the start-up output and the plan. What is unknown (0) is left out or said to be.
std::string describe(const LedgerInput& input, const FourLedgers& ledgers);

}  // namespace refrain::capacity
