// LedgerDriver: applies a list of operations to a real ledger and to the naive one, plays the arena
// (which text was written into which slot), and compares after every operation. Used by the
// property test (random lists) and the fuzz target (lists from bytes). One thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "../support/naive_ledger.h"
#include "base/hash.h"
#include "base/str.h"
#include "kv/ledger.h"

namespace refrain::test {

enum class LedgerAction : std::uint8_t {
  kAdmit,
  kAppend,
  kAppendPrompt,
  kCommit,
  kRollback,
  kRelease,
  kDropSpace,
  kDropAll,
  kCount
};

// All fields are taken modulo what makes sense at that moment, so any bytes are a valid operation.
struct LedgerOperation {
  LedgerAction action = LedgerAction::kAdmit;
  std::uint8_t which = 0;    // running sequence, or space
  std::uint8_t family = 0;   // admit: which base text ...
  std::uint8_t fork_at = 0;  // ... and where the prompt leaves it
  std::uint8_t length = 0;   // admit: prompt tokens; append: tokens
  std::uint8_t extra = 0;    // admit: tokens to generate
};

inline std::ostream& operator<<(std::ostream& out, const LedgerOperation& operation) {
  static constexpr std::array kNames{"admit",    "append",  "append_prompt", "commit",
                                     "rollback", "release", "drop_space",    "drop_all"};
  return out << "\n  " << kNames.at(static_cast<std::size_t>(operation.action)) << " which "
             << +operation.which << " family " << +operation.family << " fork_at "
             << +operation.fork_at << " length " << +operation.length << " extra "
             << +operation.extra;
}

class LedgerDriver {
 public:
  static constexpr int kSpaces = 3;
  static constexpr std::size_t kMaxRunning = 6;

  explicit LedgerDriver(const kv::LedgerOptions& options)
      : ledger_(std::move(kv::Ledger::create(options)).value()),
        naive_(options),
        written_(static_cast<std::size_t>(options.block_count) * options.block_size) {}

  // Empty if ledger and model still agree; else what differs.
  std::string apply(const LedgerOperation& operation) {
    ++now_;
    std::string broken = perform(operation);
    if (broken.empty()) broken = ledger_->verify();
    if (broken.empty()) broken = compare_counts();
    if (broken.empty()) broken = compare_sequences();
    return broken;
  }

  // Ends all sequences; afterwards nothing may be pinned or promised (A10, O-16).
  std::string finish() {
    while (!running_.empty())
      if (auto broken = apply({.action = LedgerAction::kRelease}); !broken.empty()) return broken;
    const kv::LedgerCounts counts = ledger_->counts();
    if (counts.pinned != 0 || counts.reserved != 0 || counts.sequences != 0)
      return "blocks are still held after the last sequence has ended";
    return {};
  }

  const kv::Ledger& ledger() const { return *ledger_; }
  std::uint64_t admitted() const { return admitted_; }

 private:
  struct Run {
    std::uint64_t id = 0;
    int space = 0;
    TokenList prompt;
    std::uint32_t max_total = 0;
    std::vector<kv::BlockCopy> copies;  // not yet done by the "arena"
  };

  static Hash128 space_key(int space) {
    return hash_text("space", static_cast<std::uint64_t>(space));
  }
  // What K/V in a slot depend on: the space and all tokens up to the slot.
  static Hash128 text_key(int space, const TokenList& tokens, std::size_t count) {
    return hash_bytes(std::as_bytes(std::span(tokens).first(count)),
                      1 + static_cast<std::uint64_t>(space));
  }

  // Two base texts that begin alike for 20 tokens; a prompt follows one up to `fork_at`.
  static TokenList make_prompt(const LedgerOperation& operation) {
    TokenList prompt;
    const int family = operation.family % 3;
    const int fork_at = operation.fork_at % 100;
    const int length = 1 + operation.length % 100;
    for (int i = 0; i < length; ++i) {
      int token = i < 20 ? i : 100 * family + i;
      if (i >= fork_at) token += 1000 * (1 + operation.family % 2);
      prompt.push_back(TokenId{token});
    }
    return prompt;
  }

  std::string perform(const LedgerOperation& operation) {
    if (operation.action == LedgerAction::kAdmit) return admit(operation);
    if (operation.action == LedgerAction::kDropAll) return drop(std::nullopt);
    if (operation.action == LedgerAction::kDropSpace) return drop(operation.which % kSpaces);
    if (running_.empty()) return {};
    Run& run = running_[operation.which % running_.size()];
    switch (operation.action) {
      case LedgerAction::kAppend:
      case LedgerAction::kAppendPrompt:
        append(run, operation);
        return {};
      case LedgerAction::kCommit:
        ledger_->commit(SequenceId{run.id});
        naive_.commit(run.id);
        return {};
      case LedgerAction::kRollback:
        ledger_->rollback(SequenceId{run.id});
        naive_.rollback(run.id);
        return {};
      default:
        ledger_->release(SequenceId{run.id}, now_);
        naive_.release(run.id, now_);
        running_.erase(running_.begin() + (&run - running_.data()));
        return {};
    }
  }

  std::string admit(const LedgerOperation& operation) {
    if (running_.size() >= kMaxRunning) return {};
    Run run{next_id_++, operation.which % kSpaces, make_prompt(operation)};
    run.max_total = static_cast<std::uint32_t>(run.prompt.size()) + operation.extra % 64;
    const kv::ReusePlan plan = ledger_->plan(space_key(run.space), run.prompt);
    if (auto broken = check_plan(plan, run); !broken.empty()) return broken;
    const kv::LedgerCounts before = ledger_->counts();
    const bool expected = ledger_->can_admit(plan, run.max_total);
    const auto admission = ledger_->admit(SequenceId{run.id}, plan, run.max_total, now_);
    const auto model = naive_.admit(run.id, run.space, run.prompt, run.max_total, now_);
    if (admission.ok() != expected) return "can_admit() and admit() disagree";
    if (admission.ok() != model.has_value())
      return str_cat("the model ", model ? "admits" : "refuses", ", the ledger does not");
    if (!admission.ok()) {
      if (before.sequences == 0 && ledger_->blocks_for(run.max_total) <= before.total)
        return "a request that fits the empty pool was refused by an idle ledger";
      const kv::LedgerCounts after = ledger_->counts();
      if (after.free != before.free || after.evictable != before.evictable ||
          after.reserved != before.reserved || after.sequences != before.sequences)
        return "a refused admission changed something";
      return {};
    }
    ++admitted_;
    if (admission->cached_tokens != *model)
      return str_cat("cached ", admission->cached_tokens, ", model ", *model);
    run.copies = admission->copies;
    running_.push_back(run);
    return {};
  }

  std::string check_plan(const kv::ReusePlan& plan, const Run& run) const {
    const std::uint32_t wanted = naive_.matched(run.space, run.prompt);
    if (plan.exact_tokens != wanted)
      return str_cat("the plan reuses ", plan.exact_tokens, " tokens, the model ", wanted);
    if (plan.exact_tokens >= run.prompt.size()) return "nothing is left to compute";
    Position next = 0;
    for (const kv::Span& span : plan.spans) {
      if (span.begin != next || span.end <= span.begin) return "spans have gaps";
      next = span.end;
    }
    if (next != static_cast<Position>(run.prompt.size())) return "spans do not cover the prompt";
    return {};
  }

  // The "arena" copies as late as it may: in front of the first step.
  void do_copies(Run& run) {
    const std::uint32_t block_size = ledger_->options().block_size;
    for (const kv::BlockCopy& copy : run.copies)
      for (std::uint32_t row = 0; row < copy.row_count; ++row)
        written_[to_int(copy.to) * block_size + row] =
            written_[to_int(copy.from) * block_size + row];
    run.copies.clear();
  }

  void append(Run& run, const LedgerOperation& operation) {
    const SequenceId id{run.id};
    const std::uint32_t begin = ledger_->length(id);
    const std::uint32_t room = run.max_total - begin;
    const std::uint32_t prompt_left =
        begin < run.prompt.size() ? static_cast<std::uint32_t>(run.prompt.size()) - begin : 0;
    std::uint32_t count = operation.action == LedgerAction::kAppendPrompt && prompt_left > 0
                              ? prompt_left
                              : std::min<std::uint32_t>(operation.length % 40, room);
    TokenList tokens;
    for (std::uint32_t i = begin; i < begin + count; ++i)
      tokens.push_back(i < run.prompt.size()
                           ? run.prompt[i]
                           : TokenId{static_cast<int>(5000 + i + operation.extra % 2)});
    ledger_->append(id, tokens, now_);
    naive_.append(run.id, tokens, now_);
    do_copies(run);
    const TokenList& all = naive_.tokens(run.id);
    for (std::uint32_t i = begin; i < begin + count; ++i)
      written_[kv::slot_of(ledger_->table(id), static_cast<Position>(i),
                           ledger_->options().block_size)] = text_key(run.space, all, i + 1);
  }

  std::string drop(std::optional<int> space) {
    const std::uint32_t dropped = space ? ledger_->drop(space_key(*space)) : ledger_->drop_all();
    return dropped == naive_.drop(space) ? "" : "dropped another number of blocks than the model";
  }

  std::string compare_counts() const {
    const kv::LedgerCounts a = ledger_->counts();
    const kv::LedgerCounts b = naive_.counts();
    if (a.free != b.free || a.evictable != b.evictable || a.pinned != b.pinned ||
        a.reserved != b.reserved || a.sequences != b.sequences)
      return str_cat("free/evictable/pinned/reserved/sequences: ledger ", a.free, "/", a.evictable,
                     "/", a.pinned, "/", a.reserved, "/", a.sequences, ", model ", b.free, "/",
                     b.evictable, "/", b.pinned, "/", b.reserved, "/", b.sequences);
    if (ledger_->totals().evicted_blocks != naive_.evicted())
      return "evicted another number of blocks than the model";
    return {};
  }

  // Every committed token of every running sequence still has its own K/V in its slot; what was
  // found in the cache was computed behind exactly the same tokens in the same space.
  std::string compare_sequences() const {
    for (const Run& run : running_) {
      const SequenceId id{run.id};
      const TokenList& tokens = naive_.tokens(run.id);
      if (ledger_->length(id) != tokens.size()) return "lengths differ";
      if (ledger_->committed(id) != naive_.committed(run.id)) return "committed tokens differ";
      for (std::uint32_t i = 0; i < ledger_->committed(id); ++i) {
        std::uint64_t slot = kv::slot_of(ledger_->table(id), static_cast<Position>(i),
                                         ledger_->options().block_size);
        for (const kv::BlockCopy& copy : run.copies)  // not copied yet: look at the source
          if (slot / ledger_->options().block_size == to_int(copy.to))
            slot = to_int(copy.from) * std::uint64_t{ledger_->options().block_size} +
                   slot % ledger_->options().block_size;
        if (written_[slot] != text_key(run.space, tokens, i + 1))
          return str_cat("sequence ", run.id, " position ", i, " holds the K/V of another text");
      }
    }
    return {};
  }

  std::unique_ptr<kv::Ledger> ledger_;
  NaiveLedger naive_;
  std::vector<Hash128> written_;  // by slot
  std::vector<Run> running_;
  std::uint64_t next_id_ = 1;
  std::uint64_t admitted_ = 0;
  Tick now_ = 0;
};

}  // namespace refrain::test
