// See score_store.h.
#include "engine/score_store.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace refrain::engine {
namespace {

std::size_t common_prefix(const TokenList& a, const TokenList& b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

model::TrimScores ScoreStore::find(const kv::CacheSpace& space, const model::TrimPolicy& policy,
                                   const TokenList& context) {
  std::size_t longest = 0;
  auto best = entries_.end();
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (entry->space != space || entry->policy != &policy) continue;
    const std::size_t common = common_prefix(entry->context, context);
    if (common <= longest) continue;
    longest = common;
    best = entry;
  }
  if (best == entries_.end()) return {};
  entries_.splice(entries_.begin(), entries_, best);
  return best->scores.resized(static_cast<std::uint32_t>(longest));
}

void ScoreStore::put(const kv::CacheSpace& space, const model::TrimPolicy& policy,
                     TokenList context, model::TrimScores scores) {
  CHECK(keeps(policy) && scores.length == context.size(), "scores of another context");
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const bool is_beginning = entry->space == space && entry->policy == &policy &&
                              common_prefix(entry->context, context) == entry->context.size();
    if (is_beginning) bytes_ -= entry->bytes();
    entry = is_beginning ? entries_.erase(entry) : std::next(entry);
  }
  entries_.push_front({space, &policy, std::move(context), std::move(scores)});
  bytes_ += entries_.front().bytes();
  while (bytes_ > max_bytes_) {
    bytes_ -= entries_.back().bytes();
    entries_.pop_back();
  }
}

}  // namespace refrain::engine
