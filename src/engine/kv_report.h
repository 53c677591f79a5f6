// KvReport: what each running request holds of the KV budget and what its steps read, copied out
// after every step for whoever looks (GET /v1/ledger). Plain data; any thread.
//
// A request's tokens are those with a slot in the arena. Its choices share the whole blocks of the
// prompt, which count once; the rest of the prompt and what it has generated each has for itself.
// Context shared with other requests counts for each of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "engine/isolation.h"
#include "kv/ledger.h"

namespace refrain::engine {

// A request that holds blocks.
struct RequestKv {
  RequestId id{};
  std::string label;
  std::string tenant;
  std::uint32_t choices = 0;  // running ones
  std::uint32_t prompt_tokens = 0;
  std::uint32_t reused_tokens = 0;     // of the prompt: not computed for this request
  std::uint32_t generated_tokens = 0;  // over all choices
  std::uint64_t kv_tokens = 0;         // now
  std::uint64_t kv_blocks = 0;         // whole blocks that hold them
  std::uint64_t peak_tokens = 0;       // so far
  double mean_tokens = 0;              // over the time since its admission
  double age_s = 0;                    // since its admission
  bool is_long = false;                // of the long class
  Alarm alarm = Alarm::kNone;          // it was out of line
  bool throttled = false;
  // Of the steps that gave it tokens after the first, with all that was computed in them.
  double step_read_bytes = 0;  // mean; 0 = there was none
  double tpot_ms = 0;          // measured; 0 = there was none
};

// Requests that have ended and held blocks before.
struct EndedKv {
  std::uint64_t requests = 0;
  std::uint64_t peak_tokens = 0;  // the largest peak
  double sum_of_peak_tokens = 0;  // over the requests
  double sum_of_mean_tokens = 0;
};

// Steps that only decoded; smoothed over the last 64 or so.
struct DecodeSteps {
  std::uint64_t steps = 0;      // all since the start
  double read_bytes = 0;        // of one
  double seconds = 0;           // likewise, measured
  double rows = 0;              // sequences in one
  double best_bytes_per_s = 0;  // of the fastest one since the start
};

struct KvReport {
  kv::LedgerCounts blocks;
  std::uint32_t running = 0;        // sequences
  std::vector<RequestKv> requests;  // by id
  EndedKv ended;
  DecodeSteps decode;
};

}  // namespace refrain::engine
