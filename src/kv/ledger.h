// Ledger: the bookkeeping of all KV blocks. Who holds which block, which tokens it stores, what can
// be reused, what may be evicted. Knows no tensors, clock, I/O or threads: bytes live in
// model/kv_arena, time comes in as Tick. Owned by the engine thread.
//
// A block is in exactly one state:
//   free       no content                                   free + evictable + pinned == total
//   pinned     used by at least one running sequence        (reference count > 0)
//   evictable  cached in the prefix tree, used by nobody    (reference count 0)
//
// Life of a sequence:   plan (const) -> admit -> {append -> (arena writes) -> commit}* -> release
//
//   ReusePlan plan = ledger.plan(space, tokens);                  // const: what could be reused
//   Result<Admission> in = ledger.admit(id, plan, max_total_tokens, now);   // all or nothing
//   for (BlockCopy c : in->copies) arena.copy_rows(c.from, c.to, c.row_count);   // partial-block
//                                                                 // hit
//   ledger.append(id, tokens_of_this_step, now);                  // slots for the next rows
//   ... executor writes K/V, or moves the rows of a run ...
//   ledger.commit(id);                                            // rows are valid: full blocks
//                                                                 // are published
//   ledger.release(id, now);                                      // blocks become evictable or
//   free
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "base/ids.h"
#include "base/result.h"
#include "kv/block_table.h"

namespace refrain::kv {

enum class EvictionPolicy { kLru, kLfu, kGdsf };               // see eviction.h
std::string_view eviction_policy_name(EvictionPolicy policy);  // "lru", "lfu", "gdsf"
std::optional<EvictionPolicy> eviction_policy_named(std::string_view name);

struct LedgerOptions {
  std::uint32_t block_size = 16;        // tokens per block, a multiple of 16
  std::uint32_t block_count = 0;        // hard budget: blocks in the arena
  std::uint32_t max_cached_blocks = 0;  // cap on evictable blocks inside the budget; 0 = no own cap
  EvictionPolicy policy = EvictionPolicy::kLru;
  // The exact prefix is a multiple of this; it divides 16. Above 1 where the bits behind a row
  // depend on more than what is stored of it (kernels::reuse_step_tokens()).
  std::uint32_t reuse_step_tokens = 1;
  std::uint32_t min_match_blocks = 0;  // shorter matches are not worth it; 0 = even one step is
  bool prefix_cache = true;            // off switch: nothing is matched, nothing is published
};

// Everything that changes the bits of a block, hashed: model file, rope settings, KV format,
// adapters, tenant salt, kernel variant, numerics version. Blocks of different spaces never meet.
using CacheSpace = Hash128;

enum class Provenance {
  kExact,        // found behind the same text
  kApproximate,  // found behind the same text, but computed with or behind moved rows
  kMoved,        // found behind another text or at another position: approximate
  kFresh,        // to be computed
};

// What a plan may reuse.
enum class ReuseScope {
  kExact,     // the exact prefix only
  kSegments,  // and approximate state and moved text behind it
};
// For requests that accept an approximation: no state that is estimated to diverge by more.
struct ReuseAllowance {
  ReuseScope scope = ReuseScope::kExact;
  float max_divergence = 0;  // nats
};

// One run of prompt positions [begin, end) and where its K/V comes from.
struct Span {
  Position begin = 0;
  Position end = 0;
  Provenance provenance = Provenance::kFresh;
  bool operator==(const Span&) const = default;
};

// Moved text: prompt positions [begin, begin + length) hold tokens that are also stored in one
// chain of blocks, computed at positions from `source_begin` on. Row i of the run is row (first_row
// + i) % block_size of block blocks[(first_row + i) / block_size].
struct SegmentRun {
  Position begin = 0;
  std::uint32_t length = 0;
  Position source_begin = 0;    // equal to `begin`: not moved, yet behind another text
  std::uint32_t first_row = 0;  // == source_begin % block_size
  std::vector<BlockId> blocks;
  // Share of the source's left context, in whole blocks, that also stands in front of the run here:
  // high where a context was edited, low where passages were recombined. 1 if there is none.
  float known_context = 0;
  Position end() const { return begin + static_cast<Position>(length); }
  bool operator==(const SegmentRun&) const = default;
};

// Why the exact prefix ended where it did.
enum class MissReason {
  kNone,      // everything that could be reused is reused
  kCold,      // nothing stored in this space begins like this prompt
  kDiverged,  // a stored prompt shares `matched` tokens, then differs
  kEnded,     // the stored prompt ends there: the rest is new
  kShort,     // less is shared than min_match_blocks
  kDisabled,  // prefix cache off
};

// What a request could reuse now. A plan is only valid until the next mutating call.
struct ReusePlan {
  CacheSpace space{};
  TokenList tokens;                         // the prompt
  std::vector<BlockId> exact_blocks;        // full blocks, in order
  std::vector<BlockId> approximate_blocks;  // behind them, full blocks of the second tree
  BlockId partial_block{};           // block whose first `partial_tokens` rows also match; it is
                                     // in the second tree if approximate_tokens > 0
  std::uint32_t partial_tokens = 0;  // 0 = no partial hit
  std::uint32_t exact_tokens = 0;
  std::uint32_t approximate_tokens = 0;  // behind the exact ones
  float divergence = 0;                  // estimated for the approximate ones, in nats
  std::vector<SegmentRun> runs;          // behind all that; ascending, not overlapping
  std::vector<Span> spans;               // ascending, gap-free, [0, tokens.size())
  // All blocks and the partial one; less than tokens.size().
  std::uint32_t prefix_tokens() const { return exact_tokens + approximate_tokens; }
  MissReason reason = MissReason::kCold;
};

// Copy rows [0, row_count) of block `from` into block `to` (copy on write).
struct BlockCopy {
  BlockId from{};
  BlockId to{};
  std::uint32_t row_count = 0;
};

struct Admission {
  // Prompt tokens whose K/V need not be computed. Equals plan.prefix_tokens(), or the whole blocks
  // of it when keeping the source of a partial hit would leave no room for the request itself.
  std::uint32_t cached_tokens = 0;
  std::vector<BlockCopy> copies;  // to be done by the arena before the first step; until the first
                                  // commit (or release) nothing can overwrite their sources
  // The plan's runs, or none where keeping their sources would leave no room for the request. Until
  // the end of a run is committed (or they are forgone, or release) nothing can overwrite its
  // source. The sequence is approximate from the first one on: what it computes there and behind
  // never enters the exact tree.
  std::vector<SegmentRun> runs;
};

// What a running sequence gives up of its table (trimming):
//
//   table before   [ kept ....... | begin ....... end | kept ............ ]
//   table after    [ kept ....... | gathered          | kept ............ ]
//
// Kept blocks stay where they are, shared ones too: no K/V moves. The rows of the cut go, but for
// those that its owner copies into the gathered blocks, as many as these have room for.
struct Cut {
  std::uint32_t begin = 0;     // index into the table
  std::uint32_t end = 0;       // whole blocks of tokens, all of them
  std::uint32_t gathered = 0;  // new blocks in their place, fewer than are cut
};

struct LedgerCounts {
  std::uint32_t total = 0, free = 0, evictable = 0, pinned = 0;
  std::uint32_t reserved = 0;  // promised to admitted sequences, not yet taken
  std::uint32_t sequences = 0;
  std::uint32_t approximate = 0;  // blocks in the second tree, evictable or pinned
};

// Monotonic totals; every metric about the cache is derived from these.
struct LedgerTotals {
  std::uint64_t queried_tokens = 0;      // prompt tokens of admitted sequences
  std::uint64_t hit_tokens = 0;          // of those, reused exactly
  std::uint64_t approximate_tokens = 0;  // of those, reused from the second tree
  std::uint64_t moved_tokens = 0;        // of those, in runs of segments (also if forgone later)
  std::uint64_t published_blocks = 0;
  std::uint64_t evicted_blocks = 0;
  std::uint64_t duplicate_blocks = 0;  // same content computed twice (concurrent requests)
  std::uint64_t copied_blocks = 0;     // copy on write
  std::uint64_t trimmed_tokens = 0;    // given up by running sequences, gathered ones not counted
};

class Ledger {
 public:
  // kInvalidArgument: block_size not a multiple of 16, block_count 0.
  static Result<std::unique_ptr<Ledger>> create(const LedgerOptions& options);
  ~Ledger();

  // ---- const: finding and planning change nothing
  // Longest exact prefix of `tokens` in `space`. With kSegments the longest that the second tree
  // makes of it within the allowance (the exact one where that is as long), and behind it the runs
  // of stored text, each of at least max(kMinRunTokens, min_match_blocks * block_size) tokens.
  // Never all of the prompt, so that at least one token is computed (its logits are needed). Tokens
  // are compared after every hash hit.
  static constexpr std::uint32_t kMinRunTokens = 64;  // shorter ones are not worth moving
  ReusePlan plan(const CacheSpace& space, const TokenList& tokens,
                 const ReuseAllowance& allowance = {}) const;
  ReusePlan plan(const CacheSpace& space, const TokenList& tokens, ReuseScope scope) const {
    return plan(space, tokens, ReuseAllowance{.scope = scope});
  }
  // Whether admit() would succeed now.
  bool can_admit(const ReusePlan& plan, std::uint32_t max_total_tokens) const;
  // Blocks a sequence of that many tokens needs, over the whole pool; for early refusal.
  std::uint32_t blocks_for(std::uint32_t token_count) const;
  const BlockTable& table(SequenceId id) const;
  std::uint32_t length(SequenceId id) const;     // tokens appended so far (cached ones included)
  std::uint32_t committed(SequenceId id) const;  // of those, with valid K/V
  // Of those, given up by trim(): the row at position p is row p - dropped of its table, if it came
  // behind the last cut.
  std::uint32_t dropped(SequenceId id) const;
  LedgerCounts counts() const;
  const LedgerTotals& totals() const;
  const LedgerOptions& options() const;
  // Checks every invariant; empty text = sound, else what is broken. O(blocks).
  std::string verify() const;

  // ---- mutating: only these change anything
  // Pins what the plan reuses, then reserves blocks for the worst case of `max_total_tokens`
  // (prompt + generated); evicts nothing yet that the plan uses. All or nothing: on failure
  // (kUnavailable: not now; kContextLength: more than the whole pool; kInvalidArgument: no tokens,
  // or max_total_tokens smaller than the prompt) nothing has changed. CHECKs that the plan is
  // current.
  Result<Admission> admit(SequenceId id, const ReusePlan& plan, std::uint32_t max_total_tokens,
                          Tick now);
  // Slots for `tokens` at positions [length, length + tokens.size()). Cannot fail inside the
  // reservation; CHECKs otherwise. May evict cached blocks.
  void append(SequenceId id, std::span<const TokenId> tokens, Tick now);
  // Everything appended now holds valid K/V; full blocks are published to the prefix tree.
  void commit(SequenceId id);
  // Forgets appended but uncommitted tokens (a step that failed or was rejected).
  void rollback(SequenceId id);
  // The runs of this sequence are not used after all (a gate refused them): their sources are let
  // go, and it is exact again, or as approximate as the state that it reuses. What was appended
  // from the first run on must have been rolled back: CHECKs that nothing of it is there.
  void forgo_runs(SequenceId id);
  // What was estimated, in nats, for the approximate state of this sequence, that which it reuses
  // included: its committed blocks are published to the second tree with it, now and later. Until
  // this is called the divergence of the plan counts, but nothing from the first run on is
  // published. (What lies in front of that does not depend on it: the plan's divergence stays.)
  // CHECKs that it is finite and not negative.
  void set_divergence(SequenceId id, float nats);
  // What is committed from now on is published to neither tree. All that was appended so far must
  // be committed, unless it was never to be: then it is valid from now on, and nobody else's.
  void stop_publishing(SequenceId id);
  // Cuts its table. What it computes from then on is approximate, so it must publish no more. It
  // will never be longer than `max_total_tokens`: what was reserved beyond goes back. Returns the
  // blocks of the cut, whose rows nothing overwrites until the next call that changes anything:
  // copy the wanted ones to table()[begin, begin + gathered) at once. kUnavailable, and nothing has
  // changed, while there is no room for the gathered blocks beside the cut ones. CHECKs that
  // everything appended is committed.
  Result<BlockTable> trim(SequenceId id, const Cut& cut, std::uint32_t max_total_tokens);
  // Ends a sequence: its committed blocks stay cached (the last partial one too), the rest is
  // freed.
  void release(SequenceId id, Tick now);
  // Drops all evictable blocks of one space, or of all (no argument). Returns how many.
  std::uint32_t drop(const CacheSpace& space);
  std::uint32_t drop_all();

 private:
  class Impl;
  explicit Ledger(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace refrain::kv
