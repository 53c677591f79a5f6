// What `refrain eval kv` measures of each KV format, against f16: size, quality over short windows
// and at the end of a long context, speed of decoding, and answers to given prompts. Main thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"
#include "cli/kv_comparison.h"
#include "cli/runtime.h"

namespace refrain::cli {

struct KvReportOptions {
  std::vector<model::KvFormat> formats;  // f16 need not be among them
  TokenList tokens;                      // of the text; used again from its beginning where short
  std::optional<TokenId> begin;          // what every window and context begins with
  std::uint32_t window = 512;            // tokens of a short window
  std::uint32_t window_count = 4;
  std::uint32_t context = 0;  // of the long measurement
  std::uint32_t depth = 4096;
  std::uint32_t decode_tokens = 32;
  std::uint32_t answer_rows = 24;
  std::vector<TokenList> prompts;
};

// One prompt with one format: rows of the answer that f16 gives, greedily.
struct KvAnswer {
  std::size_t rows = 0;
  double mean_kl = 0;  // nats
  bool same_first = false;
  std::size_t common_prefix = 0;  // tokens before the first that differs
};

struct KvFigures {
  model::KvFormat format = model::KvFormat::kF16;
  std::uint64_t bytes_per_token = 0;
  double bits_per_value = 0;
  KvScore windows;
  KvScore at_context;         // the last rows of the long context
  double decode_seconds = 0;  // of a token at `depth`, median
  std::vector<KvAnswer> answers;
};

using OnKvProgress = std::function<void(const char* what, double share)>;

// Formats in the order of the options, f16 first where it is not among them.
Result<std::vector<KvFigures>> measure_kv_formats(Compute& compute, const KvReportOptions& options,
                                                  const OnKvProgress& on_progress);

}  // namespace refrain::cli
