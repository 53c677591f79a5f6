// SegmentDriver: applies a list of operations to a ledger whose requests accept moved text and
// approximate state, and plays the arena: which token lies in which slot, whether its K/V are
// exact, that is, depend on the text of one prompt only, and what was estimated when they were
// published. Checks after every operation that nothing approximate passes for exact, that no source
// of a run is overwritten before the run is moved, which is done as late as allowed, and that what
// is reused from the second tree is what was published there. Used by the property test (random
// lists) and the fuzz target (lists from bytes). One thread.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
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
  kServe,     // a whole request: admit, append its prompt, estimate or not, commit, release
  kEstimate,  // set_divergence
  kCount
};

// All fields are taken modulo what makes sense at that moment, so any bytes are a valid operation.
struct SegmentOperation {
  SegmentAction action = SegmentAction::kAdmit;
  std::uint8_t which = 0;   // running sequence, or space; admit: what is accepted and estimated
  std::uint8_t texts = 0;   // admit: a prompt goes on with an earlier one, or which base texts its
                            // pieces are from ...
  std::uint8_t begin = 0;   // ... where they begin there ...
  std::uint8_t length = 0;  // ... and how long they are; append: tokens
};

inline std::ostream& operator<<(std::ostream& out, const SegmentOperation& operation) {
  static constexpr std::array kNames{"admit",      "admit_exact", "append",  "append_prompt",
                                     "commit",     "rollback",    "forgo",   "release",
                                     "drop_space", "serve",       "estimate"};
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
  std::uint64_t approximate_tokens() const { return ledger_->totals().approximate_tokens; }

 private:
  static constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t kMostKept = 300;  // of an earlier prompt: small pools shall hold it

  struct Row {
    TokenId token{};
    Position position = -1;
    Hash128 text{};        // exact rows: hash of the space and all tokens up to this one; else 0
    float divergence = 0;  // with which its block was published
  };
  struct Run {
    SequenceId id{};
    int space = 0;
    TokenList tokens;  // of the prompt, then those generated
    std::size_t prompt_size = 0;
    std::uint32_t max_total = 0;
    std::vector<kv::BlockCopy> copies;  // not yet done
    bool has_copy = false;
    std::uint32_t cached = 0;
    std::vector<kv::SegmentRun> runs;
    std::size_t inherited_from = kNowhere;  // where its state from the second tree begins
    float inherited = 0;
    float divergence = 0;  // what it will be estimated to have, or was
    bool has_estimate = false;
    std::size_t published = 0;  // tokens; in whole blocks while it runs
  };

  static Hash128 space_key(int space) {
    return hash_text("space", static_cast<std::uint64_t>(space));
  }
  static TokenList first(const TokenList& tokens, std::size_t count) {
    return TokenList(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count));
  }
  static Hash128 text_key(int space, const TokenList& tokens, std::size_t count) {
    return hash_bytes(std::as_bytes(std::span(tokens).first(count)),
                      1 + static_cast<std::uint64_t>(space));
  }
  // Three pieces out of four texts, one of which repeats two tokens; or a piece behind the
  // beginning of what was there before, mostly all of it.
  struct Prompt {
    int space = 0;
    TokenList tokens;
  };
  Prompt make_prompt(const SegmentOperation& operation) const {
    TokenList prompt;
    if (operation.texts >= 128 && !earlier_.empty()) {
      const Prompt& earlier = earlier_[operation.begin % earlier_.size()];
      prompt = earlier.tokens;
      const std::size_t kept =
          operation.length % 4 == 0 ? operation.length % prompt.size() : prompt.size();
      prompt.resize(std::min(kept, kMostKept));
      for (int i = 0; i < operation.texts % 3 * 33; ++i)
        prompt.push_back(TokenId{1100 + operation.length + i});
      prompt.push_back(TokenId{50});
      return {earlier.space, prompt};
    }
    for (int piece = 0; piece < 3; ++piece) {
      const int text = (operation.texts >> (2 * piece)) % 4;
      const int begin = operation.begin * (piece + 1) % 40;
      const int length = operation.length * (piece + 3) % 120;
      for (int i = begin; i < begin + length; ++i)
        prompt.push_back(TokenId{text == 3 ? i % 2 : 100 + 1000 * text + i});
    }
    prompt.push_back(TokenId{50});
    return {operation.which % kSpaces, prompt};
  }
  std::uint32_t block_size() const { return ledger_->options().block_size; }
  Row& row(BlockId block, std::uint32_t index) {
    return arena_[std::size_t{to_int(block)} * block_size() + index];
  }
  Row& row_at(const Run& run, std::size_t position) {
    return arena_[kv::slot_of(ledger_->table(run.id), static_cast<Position>(position),
                              block_size())];
  }
  static std::size_t first_run(const Run& run) {
    return run.runs.empty() ? kNowhere : static_cast<std::size_t>(run.runs[0].begin);
  }
  static std::size_t exact_end(const Run& run) {
    return std::min(run.inherited_from, first_run(run));
  }
  // Committed tokens of it that the ledger may publish.
  std::size_t publishable(const Run& run) const {
    const std::size_t committed = ledger_->committed(run.id);
    return run.has_estimate ? committed : std::min(committed, first_run(run));
  }
  // Notes with which divergence its rows up to `end` have been published.
  void note_published(Run& run, std::size_t end) {
    while (run.published < end) {
      const std::size_t block_end = std::min(end, run.published + block_size());
      const bool has_it = run.has_estimate && (run.runs.empty() || block_end > first_run(run));
      for (std::size_t i = run.published; i < block_end; ++i)
        row_at(run, i).divergence = has_it ? run.divergence : run.inherited;
      run.published = block_end;
    }
  }
  void estimate(Run& run) {
    ledger_->set_divergence(run.id, run.divergence);
    run.has_estimate = true;
    note_published(run, publishable(run) / block_size() * block_size());
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
      case kEstimate:
        estimate(run);
        return {};
      case kForgo:
        if (ledger_->length(run.id) > first_run(run)) return {};
        ledger_->forgo_runs(run.id);
        run.runs.clear();
        run.divergence = run.inherited;
        run.has_estimate = false;
        return {};
      default:
        return release(run);
    }
  }

  std::string admit(const SegmentOperation& operation, kv::ReuseScope scope) {
    if (running_.size() >= kMaxRunning) return {};
    const Prompt prompt = make_prompt(operation);
    Run run{SequenceId{next_id_++}, prompt.space, prompt.tokens};
    run.prompt_size = run.tokens.size();
    run.max_total = static_cast<std::uint32_t>(run.prompt_size) + 20;
    static constexpr std::array kAccepted{std::numeric_limits<float>::max(), 1.0F, 0.25F, 0.0F};
    const kv::ReuseAllowance allowance{scope, kAccepted.at(operation.which / 2 % 4)};
    const kv::ReusePlan plan = ledger_->plan(space_key(run.space), run.tokens, allowance);
    if (auto broken = check_spans(plan); !broken.empty()) return broken;
    if (auto broken = check_prefix(plan, run.space, allowance); !broken.empty()) return broken;
    const bool expected = ledger_->can_admit(plan, run.max_total);
    const auto admission = ledger_->admit(run.id, plan, run.max_total, now_);
    if (admission.ok() != expected) return "can_admit() and admit() disagree";
    if (!admission.ok()) {
      const bool fits = ledger_->blocks_for(run.max_total) <= ledger_->counts().total;
      return running_.empty() && fits ? "an idle ledger refuses what fits" : "";
    }
    if (!admission->runs.empty() && admission->runs != plan.runs) return "other runs than planned";
    run.copies = admission->copies;
    run.has_copy = !run.copies.empty();
    run.cached = admission->cached_tokens;
    run.runs = admission->runs;
    if (admission->cached_tokens > plan.exact_tokens) {
      run.inherited_from = plan.exact_tokens;
      run.inherited = plan.divergence;
    }
    run.divergence = run.inherited;
    if (!run.runs.empty())
      run.divergence += 0.125F * static_cast<float>(1 + operation.which / 8 % 4);
    run.published = admission->cached_tokens / block_size() * block_size();
    running_.push_back(std::move(run));
    return check_sources(running_.back());
  }

  std::string release(Run& run) {
    ledger_->rollback(run.id);
    // A copy that no step has followed may never have been made.
    const bool is_stepped = !run.has_copy || ledger_->committed(run.id) > run.cached;
    const std::size_t end = publishable(run);
    if (is_stepped) note_published(run, end);
    const TokenList tokens = first(run.tokens, end);
    const int space = run.space;
    if (run.tokens.size() >= kv::Ledger::kMinRunTokens) {
      earlier_.resize(std::min<std::size_t>(earlier_.size(), 7));
      earlier_.insert(earlier_.begin(), Prompt{run.space, run.tokens});
    }
    ledger_->release(run.id, now_);
    running_.erase(running_.begin() + (&run - running_.data()));
    if (ledger_->options().max_cached_blocks > 0 || !is_stepped) return {};
    // Nothing of it has been evicted yet, so all of it is found.
    TokenList again = tokens;
    again.push_back(TokenId{77});
    const kv::ReusePlan plan = ledger_->plan(
        space_key(space), again, {kv::ReuseScope::kSegments, std::numeric_limits<float>::max()});
    return plan.prefix_tokens() == end
               ? ""
               : str_cat("of ", end, " tokens published ", plan.prefix_tokens(), " are found");
  }

  std::string serve(const SegmentOperation& operation) {
    const std::size_t before = running_.size();
    if (auto broken = admit(operation, kv::ReuseScope::kSegments); !broken.empty()) return broken;
    if (running_.size() == before) return {};
    append(running_.back(), {.action = SegmentAction::kAppendPrompt});
    if (operation.which % 16 < 12) estimate(running_.back());
    if (auto broken = commit(running_.back()); !broken.empty()) return broken;
    if (auto broken = check_rows(running_.back()); !broken.empty()) return broken;
    return release(running_.back());
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
    note_published(run, publishable(run) / block_size() * block_size());
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
    std::size_t moved = 0, exact = 0, approximate = 0;
    for (const kv::Span& span : plan.spans) {
      if (span.begin != next || span.end <= span.begin) return "spans have gaps";
      next = span.end;
      const auto size = static_cast<std::size_t>(span.end - span.begin);
      if (span.provenance == kv::Provenance::kMoved) moved += size;
      if (span.provenance == kv::Provenance::kExact) exact += size;
      if (span.provenance == kv::Provenance::kApproximate) approximate += size;
    }
    if (next != static_cast<Position>(plan.tokens.size())) return "spans do not cover the prompt";
    for (const kv::SegmentRun& run : plan.runs) moved -= run.length;
    if (moved != 0 || exact != plan.exact_tokens || approximate != plan.approximate_tokens)
      return "spans and what is reused differ";
    if (exact + approximate >= plan.tokens.size()) return "nothing is left to compute";
    for (const kv::SegmentRun& run : plan.runs)
      if (!(run.known_context >= 0 && run.known_context <= 1)) return "an impossible known context";
    return {};
  }

  // Exact blocks hold exact rows, those of the second tree the same tokens at the same positions,
  // published with what the plan says; and that is taken only where it reaches further.
  std::string check_prefix(const kv::ReusePlan& plan, int space,
                           const kv::ReuseAllowance& allowance) {
    if (allowance.scope == kv::ReuseScope::kExact &&
        (!plan.runs.empty() || plan.approximate_tokens > 0 || plan.divergence != 0))
      return "approximate state that nobody asked for";
    const std::uint32_t exact = ledger_->plan(space_key(space), plan.tokens).exact_tokens;
    if (plan.approximate_tokens == 0 ? plan.exact_tokens != exact : plan.prefix_tokens() <= exact)
      return "approximate state is preferred to exact state that reaches as far";
    kv::BlockTable table = plan.exact_blocks;
    table.insert(table.end(), plan.approximate_blocks.begin(), plan.approximate_blocks.end());
    if (plan.partial_tokens > 0) table.push_back(plan.partial_block);
    float largest = 0;
    for (std::uint32_t i = 0; i < plan.prefix_tokens(); ++i) {
      const Row& found = row(table[i / block_size()], i % block_size());
      if (found.token != plan.tokens[i] || found.position != static_cast<Position>(i))
        return str_cat("a plan finds another token at ", i);
      const bool is_exact = i < plan.exact_tokens;
      if (is_exact && found.text != text_key(space, plan.tokens, i + 1))
        return str_cat("a plan calls position ", i, " exact");
      if (!is_exact) largest = std::max(largest, found.divergence);
    }
    if (plan.divergence != largest) return "another divergence than was published";
    if (plan.divergence > allowance.max_divergence) return "more divergence than was accepted";
    return {};
  }

  // Committed rows hold their tokens; those in front of all that is approximate are exact. Behind
  // that, only the beginning of a block from the second tree can be.
  std::string check_rows(const Run& run) {
    for (std::size_t i = 0; i < ledger_->committed(run.id); ++i) {
      Row found = row_at(run, i);
      for (const kv::BlockCopy& copy : run.copies)  // not copied yet: look at the source
        if (ledger_->table(run.id)[i / block_size()] == copy.to)
          found = row(copy.from, static_cast<std::uint32_t>(i % block_size()));
      if (found.token != run.tokens[i] || found.position != static_cast<Position>(i))
        return str_cat("position ", i, " holds another token");
      const bool may_be_approximate = i >= exact_end(run);
      if (may_be_approximate && found.text == Hash128{}) continue;
      if (found.text != text_key(run.space, run.tokens, i + 1))
        return str_cat("position ", i, " holds the K/V of another text");
    }
    return {};
  }

  std::unique_ptr<kv::Ledger> ledger_;
  std::vector<Row> arena_;  // by slot
  std::vector<Run> running_;
  std::vector<Prompt> earlier_;  // what was released last, newest first
  std::uint64_t next_id_ = 1;
  std::uint64_t moved_tokens_ = 0;
  Tick now_ = 0;
};

}  // namespace refrain::test
