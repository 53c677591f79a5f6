// Ledger::Impl: composes block pool, prefix tree, eviction order and sequences. Included by the
// ledger's own .cpp files only: ledger.cpp (the public face and planning), ledger_life.cpp (the
// life of a sequence) and ledger_verify.cpp. Engine thread.
//
// Why `append` cannot fail. Let available = free + evictable. Two rules hold after every operation:
//   1. what hangs below an evictable node is evictable (a sequence pins its whole path), so every
//      evictable block can be had by taking leaves;
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
#include "kv/sequence.h"

namespace refrain::kv {

class Ledger::Impl {
 public:
  explicit Impl(const LedgerOptions& options);

  ReusePlan plan(const CacheSpace& space, const TokenList& tokens) const;
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
  void release(SequenceId id, Tick now);
  std::uint32_t drop(const CacheSpace* only);

 private:
  enum class Fit {
    kNever,  // more than the whole pool
    kNotNow,
    kWithoutPartial,  // only if the partial hit is given up: its source would have to stay, too
    kWhole,
  };
  Fit fit(const ReusePlan& plan, std::uint32_t max_total_tokens) const;
  bool is_current(const ReusePlan& plan) const;
  std::uint32_t available() const { return pool_.free_count() + pool_.evictable_count(); }
  Sequence& sequence(SequenceId id);

  // ---- blocks (ledger_life.cpp)
  BlockId take_block();
  void pin(BlockId block);
  void unpin(BlockId block);
  void forget(NodeId node);  // candidate -> free; its parent may become a candidate
  void keep_cap();
  // ---- steps in the life of a sequence (ledger_life.cpp)
  Admission start(Sequence& sequence, const ReusePlan& plan, bool with_partial, Tick now);
  void publish_full_blocks(Sequence& sequence);
  void join_twin(Sequence& sequence, NodeId node, BlockId own);
  void publish_tail(Sequence& sequence);
  void welcome(const Publication& published, Tick now);
  void drop_uncommitted(Sequence& sequence);
  void let_go_of_source(Sequence& sequence);
  // ---- parts of verify (ledger_verify.cpp)
  std::string verify_sequence(const Sequence& sequence, std::vector<std::uint32_t>& holders) const;
  std::string verify_path(const Sequence& sequence) const;
  std::string verify_block(BlockId block, std::uint32_t holders) const;
  std::string verify_totals() const;

  const LedgerOptions options_;
  BlockPool pool_;
  PrefixTree tree_;
  EvictionOrder eviction_;
  // Bounded by block_count: each sequence has at least one block of its own, taken or reserved.
  std::unordered_map<SequenceId, Sequence> sequences_;
  std::uint32_t reserved_ = 0;
  LedgerTotals totals_;
};

}  // namespace refrain::kv
