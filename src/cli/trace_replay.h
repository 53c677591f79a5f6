// Replays a trace of requests through a real ledger, without a model: what a pool of so many blocks
// would have found in the cache under an eviction policy. Any thread.
//
// The trace has one JSON object a line (the format of the traces that Mooncake published):
//
//   {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 2353]}
//
// A hash id names a block of the prompt (512 tokens there) together with all that stands in front
// of it. Here each becomes one block of 16 tokens that belong to no other id, so that one block of
// the ledger stands for one of the trace. Requests are replayed one after the other at their times,
// in milliseconds; their answers leave nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "kv/ledger.h"

namespace refrain::cli {

struct TraceRequest {
  Tick at = 0;
  std::vector<std::uint32_t> ids;  // below kMostIds
};

constexpr std::uint32_t kMostIds = 1U << 26U;

// kInvalidArgument names the line.
Result<std::vector<TraceRequest>> parse_trace(std::string_view text);

struct ReplayFigures {
  std::uint32_t pool_blocks = 0;
  kv::EvictionPolicy policy = kv::EvictionPolicy::kLru;
  std::uint64_t requests = 0;
  std::uint64_t too_long = 0;  // of them, longer than the pool: not replayed
  std::uint64_t blocks = 0;    // of all prompts
  std::uint64_t hit_blocks = 0;
  std::uint64_t tokens = 0;  // 16 for each block
  std::uint64_t hit_tokens = 0;
  std::uint64_t evicted_blocks = 0;
};

// `pool_blocks` 0: as many as the trace has, so that nothing is ever given up.
ReplayFigures replay(const std::vector<TraceRequest>& trace, std::uint32_t pool_blocks,
                     kv::EvictionPolicy policy);

}  // namespace refrain::cli
