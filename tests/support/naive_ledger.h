// NaiveLedger: what the ledger should do, in the plainest way: whole token lists, linear searches,
// no blocks, no hashes, no tree. The property test and the fuzz target run it beside the real one.
// Assumes that every operation has its own, ascending tick.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "kv/ledger.h"

namespace refrain::test {

class NaiveLedger {
 public:
  explicit NaiveLedger(const kv::LedgerOptions& options) : options_(options) {}

  // Tokens a plan for `prompt` finds.
  std::uint32_t matched(int space, const TokenList& prompt) const {
    std::size_t best = 0;
    for (const Text& text : texts_)
      if (text.space == space) best = std::max(best, common(text.tokens, prompt));
    best = std::min(best, prompt.empty() ? 0 : prompt.size() - 1);
    return static_cast<std::uint32_t>(best - best % options_.reuse_step_tokens);
  }

  // Cached tokens of the admission, or nothing if it does not fit.
  std::optional<std::uint32_t> admit(std::uint64_t id, int space, const TokenList& prompt,
                                     std::uint32_t max_total, Tick now) {
    const std::uint32_t found = matched(space, prompt);
    const std::uint32_t full = found / block();
    const std::uint32_t part = found % block();
    Running run;
    run.space = space;
    for (std::uint32_t i = 1; i <= full; ++i)
      run.holds.insert(find(space, first(prompt, i * block())));
    std::uint32_t needed = blocks_for(max_total) - full;
    for (int text : run.holds)
      if (!held(text)) ++needed;
    if (promised() + needed > available()) return std::nullopt;
    std::uint32_t cached = full * block();
    std::optional<int> source;
    if (part > 0) {
      source = source_of(space, prompt, found);
      const bool costs = !held(*source);
      if (promised() + needed + (costs ? 1 : 0) > available())
        source.reset();
      else
        cached = found;
    }
    for (int text : run.holds) use(text, now);
    if (source) use(*source, now);
    run.source = source;
    run.private_blocks = 0;
    run.promised = blocks_for(max_total) - full;
    run.tokens = first(prompt, cached);
    run.committed = cached;
    run.published = full;
    run.last_used = now;
    running_[id] = run;
    if (source) take(running_[id]);
    return cached;
  }

  void append(std::uint64_t id, const TokenList& tokens, Tick now) {
    Running& run = running_.at(id);
    run.tokens.insert(run.tokens.end(), tokens.begin(), tokens.end());
    run.last_used = now;
    while (table_size(run) < blocks_for(run.tokens.size())) take(run);
  }

  void commit(std::uint64_t id) {
    Running& run = running_.at(id);
    if (run.committed == run.tokens.size()) return;
    run.committed = static_cast<std::uint32_t>(run.tokens.size());
    let_go_of_source(run);
    while (options_.prefix_cache && (run.published + 1) * block() <= run.committed) {
      ++run.published;
      publish(run, first(run.tokens, run.published * block()));
    }
    keep_cap();
  }

  void rollback(std::uint64_t id) {
    Running& run = running_.at(id);
    run.tokens.resize(run.committed);
    while (table_size(run) > blocks_for(run.committed)) {
      --run.private_blocks;
      ++run.promised;
    }
    keep_cap();
  }

  void release(std::uint64_t id, Tick now) {
    rollback(id);
    Running& run = running_.at(id);
    run.last_used = now;
    // A part that was to be copied before the first step may never have been.
    if (options_.prefix_cache && run.committed > run.published * block() && !run.source &&
        !covered(run))
      publish(run, first(run.tokens, run.committed));
    let_go_of_source(run);
    for (int text : run.holds) {
      texts_by_id(text).last_used = now;
      texts_by_id(text).floor = floor_;
    }
    running_.erase(id);
    forget_orphans();
    keep_cap();
  }

  std::uint32_t drop(std::optional<int> space) {
    const std::size_t before = texts_.size();
    std::erase_if(texts_, [&](const Text& text) {
      return !held(text.id) && (!space || text.space == *space);
    });
    return static_cast<std::uint32_t>(before - texts_.size());
  }

  kv::LedgerCounts counts() const {
    kv::LedgerCounts counts{.total = options_.block_count};
    std::uint32_t owned = static_cast<std::uint32_t>(orphans_.size());
    for (const auto& [id, run] : running_) {
      owned += run.private_blocks;
      counts.reserved += run.promised;
    }
    for (const Text& text : texts_) (held(text.id) ? counts.pinned : counts.evictable) += 1;
    counts.pinned += owned;
    counts.free = counts.total - counts.pinned - counts.evictable;
    counts.sequences = static_cast<std::uint32_t>(running_.size());
    return counts;
  }
  std::uint64_t evicted() const { return evicted_; }
  const TokenList& tokens(std::uint64_t id) const { return running_.at(id).tokens; }
  std::uint32_t committed(std::uint64_t id) const { return running_.at(id).committed; }

 private:
  struct Text {  // one cached block: everything from position 0 to its last token
    int id = 0;
    int space = 0;
    TokenList tokens;
    std::uint64_t uses = 1;
    Tick last_used = 0;
    std::uint64_t floor = 0;
  };
  struct Running {
    int space = 0;
    TokenList tokens;
    std::uint32_t committed = 0;
    std::uint32_t published = 0;
    std::uint32_t promised = 0;
    std::uint32_t private_blocks = 0;  // in the table, without a text of their own
    std::uint32_t twin_count = 0;      // of those, copies of a text held besides
    std::set<int> holds;
    std::optional<int> source;  // text id or orphan
    Tick last_used = 0;
  };

  std::uint32_t block() const { return options_.block_size; }
  std::uint32_t blocks_for(std::size_t tokens) const {
    return static_cast<std::uint32_t>((tokens + block() - 1) / block());
  }
  static TokenList first(const TokenList& tokens, std::size_t count) {
    return TokenList(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count));
  }
  static std::size_t common(const TokenList& a, const TokenList& b) {
    std::size_t i = 0;
    while (i < a.size() && i < b.size() && a[i] == b[i]) ++i;
    return i;
  }
  static bool begins_with(const TokenList& whole, const TokenList& head) {
    return common(whole, head) == head.size();
  }
  Text& texts_by_id(int id) {
    return *std::find_if(texts_.begin(), texts_.end(), [&](const Text& t) { return t.id == id; });
  }
  int find(int space, const TokenList& tokens) const {
    for (const Text& text : texts_)
      if (text.space == space && text.tokens == tokens) return text.id;
    return -1;
  }
  bool held(int text) const {
    return std::any_of(running_.begin(), running_.end(), [&](const auto& entry) {
      return entry.second.holds.contains(text) || entry.second.source == text;
    });
  }
  std::uint32_t promised() const {
    std::uint32_t sum = 0;
    for (const auto& [id, run] : running_) sum += run.promised;
    return sum;
  }
  std::uint32_t available() const { return counts().free + counts().evictable; }
  // Holds of full blocks, minus those the table has a private copy of, plus private ones.
  std::uint32_t table_size(const Running& run) const {
    return static_cast<std::uint32_t>(run.holds.size()) - run.twin_count + run.private_blocks;
  }
  // Which block a partial hit is copied from: of the blocks at that place, in the order of their
  // tokens, the first that is not smaller than the prompt's rest if it shares as much, else the
  // one before it.
  int source_of(int space, const TokenList& prompt, std::uint32_t found) const {
    const std::uint32_t begin = found / block() * block();
    const TokenList wanted =
        first(prompt, std::min<std::size_t>(prompt.size() - 1, begin + block()));
    const Text* after = nullptr;
    const Text* before = nullptr;
    for (const Text& text : texts_) {
      if (text.space != space || (text.tokens.size() - 1) / block() != begin / block()) continue;
      if (common(text.tokens, wanted) < found) continue;
      if (text.tokens >= wanted) {
        if (after == nullptr || text.tokens < after->tokens) after = &text;
      } else if (before == nullptr || text.tokens > before->tokens) {
        before = &text;
      }
    }
    return after != nullptr ? after->id : before->id;
  }
  void use(int id, Tick now) {
    Text& text = texts_by_id(id);
    ++text.uses;
    text.last_used = std::max(text.last_used, now);
    text.floor = floor_;
    for (Text& head : texts_)  // what it hangs below counts no fewer uses
      if (head.space == text.space && head.tokens.size() < text.tokens.size() &&
          head.tokens.size() % block() == 0 && begins_with(text.tokens, head.tokens)) {
        head.uses = std::max(head.uses, text.uses);
        head.floor = std::max(head.floor, text.floor);
      }
  }
  bool covered(const Running& run) const {
    const TokenList tail = first(run.tokens, run.committed);
    return std::any_of(texts_.begin(), texts_.end(), [&](const Text& text) {
      return text.space == run.space && begins_with(text.tokens, tail);
    });
  }
  void publish(Running& run, const TokenList& tokens) {
    const int known = find(run.space, tokens);
    if (known >= 0) {
      if (held(known))
        ++run.twin_count;  // both stay
      else
        --run.private_blocks;  // ours replaces it
      run.holds.insert(known);
      use(known, run.last_used);
      return;
    }
    --run.private_blocks;
    // A shorter last block of the same beginning grows into this one.
    const std::size_t begin = (tokens.size() - 1) / block() * block();
    for (Text& text : texts_) {
      if (text.space != run.space || text.tokens.size() <= begin ||
          !begins_with(tokens, text.tokens))
        continue;
      if (held(text.id)) {  // its block lives on for those that copy from it
        const int orphan = next_id_++;
        orphans_.insert(orphan);
        for (auto& [id, other] : running_)
          if (other.source == text.id) other.source = orphan;
      }
      text.tokens = tokens;
      use(text.id, run.last_used);
      run.holds.insert(text.id);
      return;
    }
    texts_.push_back(Text{next_id_, run.space, tokens, 1, run.last_used, floor_});
    run.holds.insert(next_id_++);
  }
  void let_go_of_source(Running& run) {
    run.source.reset();
    forget_orphans();
  }
  void forget_orphans() {
    std::erase_if(orphans_, [&](int orphan) { return !held(orphan); });
  }
  void take(Running& run) {
    if (counts().free == 0) evict();
    ++run.private_blocks;
    --run.promised;
  }
  void keep_cap() {
    while (options_.max_cached_blocks > 0 && counts().evictable > options_.max_cached_blocks)
      evict();
  }
  void evict() {
    const Text* victim = nullptr;
    for (const Text& text : texts_) {
      if (held(text.id)) continue;
      const bool has_children = std::any_of(texts_.begin(), texts_.end(), [&](const Text& other) {
        return other.space == text.space && other.tokens.size() > text.tokens.size() &&
               begins_with(other.tokens, text.tokens);
      });
      if (has_children) continue;
      if (victim == nullptr || goes_before(text, *victim)) victim = &text;
    }
    floor_ = std::max(floor_, victim->uses + victim->floor);
    texts_.erase(texts_.begin() + (victim - texts_.data()));
    ++evicted_;
  }
  bool goes_before(const Text& a, const Text& b) const {
    if (options_.policy == kv::EvictionPolicy::kLfu && a.uses != b.uses) return a.uses < b.uses;
    if (options_.policy == kv::EvictionPolicy::kGdsf && a.uses + a.floor != b.uses + b.floor)
      return a.uses + a.floor < b.uses + b.floor;
    return a.last_used < b.last_used;
  }

  const kv::LedgerOptions options_;
  std::vector<Text> texts_;
  std::map<std::uint64_t, Running> running_;
  std::set<int> orphans_;
  int next_id_ = 0;
  std::uint64_t evicted_ = 0;
  std::uint64_t floor_ = 0;  // worth of what was given up last (gdsf)
};

}  // namespace refrain::test
