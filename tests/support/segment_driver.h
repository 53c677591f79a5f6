// SegmentDriver: applies a list of operations to a ledger whose requests accept moved text, and
// plays the arena: which token lies in which slot, and whether its K/V are exact, that is, depend
// on the text of one prompt only. Checks after every operation that nothing approximate passes for
// exact and that no source of a run is overwritten before the run is moved, which is done as late
// as allowed. Used by the property test (random lists) and the fuzz target (lists from bytes). One
// thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/str.h"
#include "kv/ledger.h"

namespace refrain::test {

enum class SegmentAction : std::uint8_t {
  kAdmit,
  kAdmitExact,
  kAppend,
  kAppendPrompt,
  kCommit,
  kRollback,
  kForgo,
  kRelease,
  kDropSpace,
  kServe,  // a whole request: admit, append its prompt, commit, release
  kCount
};

// All fields are taken modulo what makes sense at that moment, so any bytes are a valid operation.
struct SegmentOperation {
  SegmentAction action = SegmentAction::kAdmit;
  std::uint8_t which = 0;   // running sequence, or space
  std::uint8_t texts = 0;   // admit: which base texts the pieces of the prompt are from ...
  std::uint8_t begin = 0;   // ... where they begin there ...
  std::uint8_t length = 0;  // ... and how long they are; append: tokens
};

inline std::ostream& operator<<(std::ostream& out, const SegmentOperation& operation) {
  static constexpr std::array kNames{"admit",      "admit_exact", "append", "append_prompt",
                                     "commit",     "rollback",    "forgo",  "release",
                                     "drop_space", "serve"};
  return out << "\n  " << kNames.at(static_cast<std::size_t>(operation.action)) << " which "
             << +operation.which << " texts " << +operation.texts << " begin " << +operation.begin
             << " length " << +operation.length;
}

class SegmentDriver {
 public:
  static constexpr int kSpaces = 2;
  static constexpr std::size_t kMaxRunning = 4;

  explicit SegmentDriver(const kv::LedgerOptions& options)
      : ledger_(std::move(kv::Ledger::create(options)).value()),
        arena_(static_cast<std::size_t>(options.block_count) * options.block_size) {}

  // Empty if all is well; else what is wrong.
  std::string apply(const SegmentOperation& operation) {
    ++now_;
    std::string broken = perform(operation);
    if (broken.empty()) broken = ledger_->verify();
    for (std::size_t i = 0; broken.empty() && i < running_.size(); ++i)
      broken = check_rows(running_[i]);
    return broken;
  }
  std::string finish() {
    while (!running_.empty())
      if (auto broken = apply({.action = SegmentAction::kRelease}); !broken.empty()) return broken;
    const kv::LedgerCounts counts = ledger_->counts();
    if (counts.pinned != 0 || counts.reserved != 0 || counts.sequences != 0)
      return "blocks are still held after the last sequence has ended";
    return {};
  }
  std::uint64_t moved_tokens() const { return moved_tokens_; }

 private:
  struct Row {
    TokenId token{};
    Position position = -1;
    Hash128 text{};  // exact rows: hash of the space and all tokens up to this one; else 0
  };
  struct Run {
    SequenceId id{};
    int space = 0;
    TokenList tokens;  // of the prompt, then those generated
    std::size_t prompt_size = 0;
    std::uint32_t max_total = 0;
    std::vector<kv::BlockCopy> copies;  // not yet done
    std::vector<kv::SegmentRun> runs;
  };

  static Hash128 space_key(int space) {
    return hash_text("space", static_cast<std::uint64_t>(space));
  }
  static Hash128 text_key(int space, const TokenList& tokens, std::size_t count) {
    return hash_bytes(std::as_bytes(std::span(tokens).first(count)),
                      1 + static_cast<std::uint64_t>(space));
  }
  // Three pieces out of four texts, one of which repeats two tokens.
  static TokenList make_prompt(const SegmentOperation& operation) {
    TokenList prompt;
    for (int piece = 0; piece < 3; ++piece) {
      const int text = (operation.texts >> (2 * piece)) % 4;
      const int begin = operation.begin * (piece + 1) % 40;
      const int length = operation.length * (piece + 3) % 120;
      for (int i = begin; i < begin + length; ++i)
        prompt.push_back(TokenId{text == 3 ? i % 2 : 100 + 1000 * text + i});
    }
    prompt.push_back(TokenId{50});
    return prompt;
  }
  std::uint32_t block_size() const { return ledger_->options().block_size; }
  Row& row(BlockId block, std::uint32_t index) {
    return arena_[std::size_t{to_int(block)} * block_size() + index];
  }
  Row& row_at(const Run& run, std::size_t position) {
    return arena_[kv::slot_of(ledger_->table(run.id), static_cast<Position>(position),
                              block_size())];
  }
  static std::size_t exact_end(const Run& run) {
    return run.runs.empty() ? run.tokens.size() : static_cast<std::size_t>(run.runs[0].begin);
  }

  std::string perform(const SegmentOperation& operation) {
    using enum SegmentAction;
    if (operation.action == kAdmit) return admit(operation, kv::ReuseScope::kSegments);
    if (operation.action == kAdmitExact) return admit(operation, kv::ReuseScope::kExact);
    if (operation.action == kServe) return serve(operation);
    if (operation.action == kDropSpace) {
      ledger_->drop(space_key(operation.which % kSpaces));
      return {};
    }
    if (running_.empty()) return {};
    Run& run = running_[operation.which % running_.size()];
    switch (operation.action) {
      case kAppend:
      case kAppendPrompt:
        append(run, operation);
        return {};
      case kCommit:
        return commit(run);
      case kRollback:
        ledger_->rollback(run.id);
        return {};
      case kForgo:
        if (ledger_->length(run.id) > exact_end(run)) return {};
        ledger_->forgo_runs(run.id);
        run.runs.clear();
        return {};
      default:
        ledger_->release(run.id, now_);
        running_.erase(running_.begin() + (&run - running_.data()));
        return {};
    }
  }

  std::string admit(const SegmentOperation& operation, kv::ReuseScope scope) {
    if (running_.size() >= kMaxRunning) return {};
    Run run{SequenceId{next_id_++}, operation.which % kSpaces, make_prompt(operation)};
    run.prompt_size = run.tokens.size();
    run.max_total = static_cast<std::uint32_t>(run.prompt_size) + 20;
    const kv::ReusePlan plan = ledger_->plan(space_key(run.space), run.tokens, scope);
    if (scope == kv::ReuseScope::kExact && !plan.runs.empty()) return "runs that nobody asked for";
    if (auto broken = check_spans(plan); !broken.empty()) return broken;
    const bool expected = ledger_->can_admit(plan, run.max_total);
    const auto admission = ledger_->admit(run.id, plan, run.max_total, now_);
    if (admission.ok() != expected) return "can_admit() and admit() disagree";
    if (!admission.ok()) {
      const bool fits = ledger_->blocks_for(run.max_total) <= ledger_->counts().total;
      return running_.empty() && fits ? "an idle ledger refuses what fits" : "";
    }
    if (!admission->runs.empty() && admission->runs != plan.runs) return "other runs than planned";
    run.copies = admission->copies;
    run.runs = admission->runs;
    running_.push_back(std::move(run));
    return check_sources(running_.back());
  }

  std::string serve(const SegmentOperation& operation) {
    const std::size_t before = running_.size();
    if (auto broken = admit(operation, kv::ReuseScope::kSegments); !broken.empty()) return broken;
    if (running_.size() == before) return {};
    append(running_.back(), {.action = SegmentAction::kAppendPrompt});
    if (auto broken = commit(running_.back()); !broken.empty()) return broken;
    if (auto broken = check_rows(running_.back()); !broken.empty()) return broken;
    ledger_->release(running_.back().id, now_);
    running_.pop_back();
    return {};
  }

  // In front of the first step, as late as allowed.
  void do_copies(Run& run) {
    for (const kv::BlockCopy& copy : run.copies)
      for (std::uint32_t i = 0; i < copy.row_count; ++i) row(copy.to, i) = row(copy.from, i);
    run.copies.clear();
  }

  void append(Run& run, const SegmentOperation& operation) {
    const std::uint32_t begin = ledger_->length(run.id);
    std::uint32_t count = std::min<std::uint32_t>(operation.length % 70, run.max_total - begin);
    if (operation.action == SegmentAction::kAppendPrompt && begin < run.prompt_size)
      count = static_cast<std::uint32_t>(run.prompt_size) - begin;
    while (run.tokens.size() < begin + count)
      run.tokens.push_back(TokenId{9000 + static_cast<int>(run.tokens.size())});
    ledger_->append(run.id, std::span(run.tokens).subspan(begin, count), now_);
    do_copies(run);
  }

  // Rows are computed and moved now: until here all sources must have stayed.
  std::string commit(Run& run) {
    if (auto broken = check_sources(run); !broken.empty()) return broken;
    for (std::size_t i = ledger_->committed(run.id); i < ledger_->length(run.id); ++i) {
      const bool exact = i < exact_end(run);
      row_at(run, i) = Row{run.tokens[i], static_cast<Position>(i),
                           exact ? text_key(run.space, run.tokens, i + 1) : Hash128{}};
    }
    for (const kv::SegmentRun& part : run.runs)
      if (part.end() > static_cast<Position>(ledger_->committed(run.id)) &&
          part.end() <= static_cast<Position>(ledger_->length(run.id)))
        moved_tokens_ += part.length;
    ledger_->commit(run.id);
    return {};
  }

  // Rows that are still to be moved are exact ones of these tokens, at the positions promised.
  std::string check_sources(const Run& run) {
    const auto committed = static_cast<Position>(ledger_->committed(run.id));
    for (const kv::SegmentRun& part : run.runs) {
      if (part.end() <= committed) continue;
      for (std::uint32_t i = 0; i < part.length; ++i) {
        const std::uint32_t at = part.first_row + i;
        const Row& source = row(part.blocks.at(at / block_size()), at % block_size());
        const std::size_t target = static_cast<std::size_t>(part.begin) + i;
        if (source.token != run.tokens[target]) return "the source of a run holds another token";
        if (source.position != part.source_begin + static_cast<Position>(i))
          return "the source of a run was computed at another position";
        if (source.text == Hash128{}) return "the source of a run is not exact";
      }
    }
    return {};
  }

  static std::string check_spans(const kv::ReusePlan& plan) {
    Position next = 0;
    std::size_t moved = 0, exact = 0;
    for (const kv::Span& span : plan.spans) {
      if (span.begin != next || span.end <= span.begin) return "spans have gaps";
      next = span.end;
      const auto size = static_cast<std::size_t>(span.end - span.begin);
      if (span.provenance == kv::Provenance::kMoved) moved += size;
      if (span.provenance == kv::Provenance::kExact) exact += size;
    }
    if (next != static_cast<Position>(plan.tokens.size())) return "spans do not cover the prompt";
    for (const kv::SegmentRun& run : plan.runs) moved -= run.length;
    if (moved != 0 || exact != plan.exact_tokens) return "spans and runs differ";
    if (exact >= plan.tokens.size()) return "nothing is left to compute";
    return {};
  }

  // Committed rows hold their tokens; those in front of the first run are exact.
  std::string check_rows(const Run& run) {
    for (std::size_t i = 0; i < ledger_->committed(run.id); ++i) {
      Row found = row_at(run, i);
      for (const kv::BlockCopy& copy : run.copies)  // not copied yet: look at the source
        if (ledger_->table(run.id)[i / block_size()] == copy.to)
          found = row(copy.from, static_cast<std::uint32_t>(i % block_size()));
      if (found.token != run.tokens[i] || found.position != static_cast<Position>(i))
        return str_cat("position ", i, " holds another token");
      const Hash128 wanted =
          i < exact_end(run) ? text_key(run.space, run.tokens, i + 1) : Hash128{};
      if (found.text != wanted) return str_cat("position ", i, " holds the K/V of another text");
    }
    return {};
  }

  std::unique_ptr<kv::Ledger> ledger_;
  std::vector<Row> arena_;  // by slot
  std::vector<Run> running_;
  std::uint64_t next_id_ = 1;
  std::uint64_t moved_tokens_ = 0;
  Tick now_ = 0;
};

}  // namespace refrain::test
