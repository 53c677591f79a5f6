// The check of KV formats at load: a short text of the project's own goes through the model with
// f16 and with each format in question, and a format counts as good where its answers stay within
// the bounds below. Main thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/kv_comparison.h"
#include "cli/kv_verdict_store.h"
#include "cli/runtime.h"
#include "model/kv_arena.h"

namespace refrain::cli {

inline constexpr double kMostKvDivergence = 0.005;  // mean KL to f16, nats
inline constexpr double kLeastSameTop = 0.97;       // rows with the same likeliest token

struct KvVerdict {
  model::KvFormat format = model::KvFormat::kF16;
  KvScore score;

  bool good() const {
    return score.mean_kl() <= kMostKvDivergence && score.same_top() >= kLeastSameTop;
  }
  // "q4: mean KL 0.0312 nats, same top 88.3 %"
  std::string text() const;
};

// The token that a text of the model begins with, if it wants one.
std::optional<TokenId> begin_token(const LoadedModel& loaded);
// `count` tokens of text about invented places, without that.
TokenList invented_tokens(const LoadedModel& loaded, std::size_t count);

// Verdicts on `formats`, in their order. `compute` has an executor and any arena.
Result<std::vector<KvVerdict>> check_kv_formats(Compute& compute,
                                                const std::vector<model::KvFormat>& formats);

// Verdicts that an earlier start left are taken from `store`, the others are made and left there.

// The format of fewest bytes that is good, f16 if none is; sets compute.kv_note.
Result<model::KvFormat> smallest_good_format(Compute& compute, const KvVerdictStore& store);
// kInvalidArgument with the figures and the remedy where it is not good; sets compute.kv_note.
Result<void> require_good_format(Compute& compute, model::KvFormat format,
                                 const KvVerdictStore& store);

}  // namespace refrain::cli
