// Ledger::Impl: composes block pool, prefix tree, eviction order and sequences. Included by the
// ledger's own .cpp files only: ledger.cpp (the public face), ledger_plan.cpp (planning),
// ledger_life.cpp (the life of a sequence), ledger_trim.cpp and ledger_verify.cpp. Engine thread.
//
// Why `append` cannot fail. Let available = free + evictable. Two rules hold after every operation:
//   1. every evictable block is a candidate for eviction, so it can be had. What hangs below it
//      stays; a running sequence pins its whole path, so nothing above a pinned path ever goes;
//   2. reserved <= available. Admission checks it with the worst case of the newcomer; later a
//      block leaves `available` only by being taken out of a reservation.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "kv/block_pool.h"
#include "kv/eviction.h"
#include "kv/ledger.h"
#include "kv/prefix_tree.h"
#include "kv/segment_index.h"
#include "kv/segment_search.h"
#include "kv/sequence.h"

namespace refrain::kv {

class Ledger::Impl {
 public:
  explicit Impl(const LedgerOptions& options);

  ReusePlan plan(const CacheSpace& space, const TokenList& tokens,
                 const ReuseAllowance& allowance) const;
  bool can_admit(const ReusePlan& plan, std::uint32_t max_total_tokens) const;
  std::uint32_t blocks_for(std::uint32_t token_count) const;
  const Sequence& sequence(SequenceId id) const;
  LedgerCounts counts() const;
  const LedgerTotals& totals() const { return totals_; }
  const LedgerOptions& options() const { return options_; }
  std::string verify() const;

  Result<Admission> admit(SequenceId id, const ReusePlan& plan, std::uint32_t max_total_tokens,
                          Tick now);
  void append(SequenceId id, std::span<const TokenId> tokens, Tick now);
  void commit(SequenceId id);
  void rollback(SequenceId id);
  void forgo_runs(SequenceId id);
  void set_divergence(SequenceId id, float nats);
  void stop_publishing(SequenceId id);
  Result<BlockTable> trim(SequenceId id, const Cut& cut, std::uint32_t max_total_tokens);
  void release(SequenceId id, Tick now);
  std::uint32_t drop(const CacheSpace* only);

 private:
  // Whether a plan fits beside what runs, and which parts of it: sources that would have to stay
  // until they are copied are given up before the request waits.
  struct Fit {
    bool ever = false;  // in the whole pool
    bool now = false;
    bool with_partial = false;
    bool with_runs = false;
  };
  Fit fit(const ReusePlan& plan, std::uint32_t max_total_tokens) const;
  void plan_prefix(ReusePlan& plan, const ReuseAllowance& allowance) const;
  void go_on_approximately(ReusePlan& plan, const PrefixMatch& exact, float max_divergence) const;
  void plan_runs(ReusePlan& plan) const;
  SegmentRun segment_run(const FoundRun& found, std::uint32_t shift) const;
  std::uint32_t evictable_sources(const ReusePlan& plan, bool with_partial, bool with_runs) const;
  bool is_current(const ReusePlan& plan) const;
  bool is_prefix_current(const ReusePlan& plan) const;
  bool is_current(const ReusePlan& plan, const SegmentRun& run) const;
  std::uint32_t available() const { return pool_.free_count() + pool_.evictable_count(); }
  Sequence& sequence(SequenceId id);

  // ---- blocks (ledger_life.cpp)
  BlockId take_block();
  void pin(BlockId block);
  void unpin(BlockId block);
  void use(BlockId block, Tick now);          // pins the source of a run and counts that as a use
  void use_as_prefix(NodeId node, Tick now);  // counts a use of a pinned path
  bool is_segment(NodeId node) const {        // what the segment index holds
    return tree_.is_full(node) && !tree_.is_approximate(node);
  }
  void forget(NodeId node);  // candidate -> free; what hangs below it stays
  void keep_cap();
  // ---- steps in the life of a sequence (ledger_life.cpp)
  Admission start(Sequence& sequence, const ReusePlan& plan, const Fit& fit, Tick now);
  void share(Sequence& sequence, BlockId block, Tick now);
  void start_runs(Sequence& sequence, const ReusePlan& plan, Tick now);
  Publication publish(const Sequence& sequence, std::span<const TokenId> tokens);
  void publish_full_blocks(Sequence& sequence);
  void join_twin(Sequence& sequence, NodeId node);
  void publish_tail(Sequence& sequence);
  void welcome(const Publication& published, Tick now);
  void drop_uncommitted(Sequence& sequence);
  void let_go_of_source(Sequence& sequence);
  void let_go_of_runs(Sequence& sequence,
                      std::uint32_t committed);  // those that end there or before
  // ---- trimming (ledger_trim.cpp)
  bool has_room_for(const Sequence& sequence, const Cut& cut, std::uint32_t spare) const;
  void leave_path(Sequence& sequence);
  void let_go(const Sequence& sequence, BlockId block);
  // ---- parts of verify (ledger_verify.cpp)
  std::string verify_sequence(const Sequence& sequence, std::vector<std::uint32_t>& holders) const;
  std::string verify_published(const Sequence& sequence) const;
  std::string verify_trimmed(const Sequence& sequence) const;
  std::string verify_path(const Sequence& sequence) const;
  std::string verify_block(BlockId block, std::uint32_t holders) const;
  std::string verify_totals() const;

  const LedgerOptions options_;
  BlockPool pool_;
  PrefixTree tree_;
  SegmentIndex segments_;
  EvictionOrder eviction_;
  // Bounded by block_count: each sequence has at least one block of its own, taken or reserved.
  std::unordered_map<SequenceId, Sequence> sequences_;
  std::uint32_t reserved_ = 0;
  LedgerTotals totals_;
};

}  // namespace refrain::kv
