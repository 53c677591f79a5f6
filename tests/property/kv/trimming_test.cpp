// Random lists of ledger operations where running sequences are trimmed: any cut of their tables,
// some rows gathered, shared blocks kept in place, tiny pools. The arena is played: which text each
// slot holds. A view is compared with a plain list of the rows it should have; after each operation
// every invariant, reference counts included, is verified; and nothing computed behind a cut is
// ever found by a plan (B4, A10).
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>

#include "base/str.h"
#include "support/ledger_fixture.h"

namespace refrain::test {
namespace {

constexpr std::uint32_t kBlockSize = 16;

// In [low, high), whatever size a list has.
template <typename T>
T any_of(T low, T high) {
  return *rc::gen::resize(100, rc::gen::inRange<T>(low, high));
}

class TrimDriver {
 public:
  explicit TrimDriver(const kv::LedgerOptions& options)
      : ledger_(std::move(kv::Ledger::create(options)).value()),
        arena_(std::size_t{options.block_count} * kBlockSize) {}

  void any_operation() {
    ++now_;
    const int what = any_of(0, 12);
    if (what < 3 || running_.empty()) {
      admit();
    } else {
      Run& run = running_[any_of<std::size_t>(0, running_.size())];
      if (what < 6) {
        extend(run, any_of(1U, 40U));
      } else if (what < 10) {
        trim(run);
      } else {
        release(run);
      }
    }
    if (any_of(0, 20) == 0) ledger_->drop_all();
    check();
  }
  void finish() {
    while (!running_.empty()) {
      release(running_.back());
      check();
    }
    const kv::LedgerCounts counts = ledger_->counts();
    if (counts.pinned != 0 || counts.reserved != 0) RC_FAIL("blocks are still held");
  }
  std::uint64_t trimmed() const { return ledger_->totals().trimmed_tokens; }

 private:
  struct Run {
    SequenceId id{};
    TokenList tokens;
    std::uint32_t prompt = 0, max_total = 0;
    std::vector<Hash128> rows;  // what its table should hold
    bool trimmed = false;
  };

  static Hash128 text_of(const TokenList& tokens, std::size_t count) {
    return hash_bytes(std::as_bytes(std::span(tokens).first(count)), 1);
  }
  Hash128& slot(const Run& run, std::size_t row) {
    return arena_[kv::slot_of(ledger_->table(run.id), static_cast<Position>(row), kBlockSize)];
  }

  void admit() {
    if (running_.size() >= 4) return;
    Run run{SequenceId{next_id_++}, {}};
    const std::size_t fork = *rc::gen::element<std::size_t>(10, 32, 48, 200);
    run.tokens = joined(tokens_from(0, std::min(fork, std::size_t{150})),
                        tokens_from(1000 * any_of(1, 3), any_of(1U, 80U)));
    run.prompt = static_cast<std::uint32_t>(run.tokens.size());
    run.max_total = run.prompt + any_of(0U, 60U);
    const kv::ReusePlan plan = ledger_->plan(space_of("a"), run.tokens);
    const auto admission = ledger_->admit(run.id, plan, run.max_total, now_);
    if (!admission.ok()) return;
    for (const kv::BlockCopy& copy : admission->copies)
      for (std::uint32_t i = 0; i < copy.row_count; ++i)
        arena_[to_int(copy.to) * kBlockSize + i] = arena_[to_int(copy.from) * kBlockSize + i];
    for (std::uint32_t i = 0; i < admission->cached_tokens; ++i)
      run.rows.push_back(text_of(run.tokens, i + 1));
    running_.push_back(run);
    extend(running_.back(), run.prompt);
  }

  void extend(Run& run, std::uint32_t count) {
    const std::uint32_t begin = ledger_->length(run.id);
    const std::uint32_t limit = begin < run.prompt ? run.prompt : run.max_total;
    count = std::min(count, limit - begin);
    while (run.tokens.size() < begin + count)
      run.tokens.push_back(TokenId{static_cast<int>(5000 + run.tokens.size())});
    ledger_->append(run.id, std::span(run.tokens).subspan(begin, count), now_);
    for (std::uint32_t i = begin; i < begin + count; ++i) {
      // A row behind a cut is nobody's text.
      run.rows.push_back(run.trimmed ? hash_text("approximate", to_int(run.id) * 1000 + i)
                                     : text_of(run.tokens, i + 1));
      slot(run, run.rows.size() - 1) = run.rows.back();
    }
    ledger_->commit(run.id);
  }

  void trim(Run& run) {
    const std::uint32_t whole = static_cast<std::uint32_t>(run.rows.size()) / kBlockSize;
    if (whole == 0) return;
    ledger_->stop_publishing(run.id);
    kv::Cut cut;
    cut.begin = any_of(0U, whole);
    cut.end = any_of(cut.begin + 1, whole + 1);
    cut.gathered = any_of(0U, cut.end - cut.begin);
    const std::uint32_t most =
        *rc::gen::element(run.max_total, std::max(run.prompt, ledger_->length(run.id)));
    const kv::LedgerCounts before = ledger_->counts();
    const auto dropped = ledger_->trim(run.id, cut, most);
    if (!dropped.ok()) {
      if (before.free + before.evictable >= before.reserved + cut.gathered)
        RC_FAIL("there is room, yet a cut is refused");
      return;
    }
    run.trimmed = true;
    run.max_total = most;
    if (dropped->size() != cut.end - cut.begin) RC_FAIL("other blocks than were cut");
    // Any rows of the cut, ascending, from blocks that are not held for this sequence any more.
    const std::size_t first = std::size_t{cut.begin} * kBlockSize;
    std::vector<std::size_t> kept(std::size_t{cut.end - cut.begin} * kBlockSize);
    for (std::size_t i = 0; i < kept.size(); ++i) kept[i] = i;
    while (kept.size() > std::size_t{cut.gathered} * kBlockSize)
      kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(now_ * 7 % kept.size()));
    std::vector<Hash128> rows;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      rows.push_back(run.rows[first + kept[i]]);
      slot(run, first + i) =
          arena_[kv::slot_of(*dropped, static_cast<Position>(kept[i]), kBlockSize)];
    }
    const auto at = run.rows.begin() + static_cast<std::ptrdiff_t>(first);
    run.rows.erase(at, at + static_cast<std::ptrdiff_t>(dropped->size() * kBlockSize));
    run.rows.insert(run.rows.begin() + static_cast<std::ptrdiff_t>(first), rows.begin(),
                    rows.end());
  }

  void release(Run& run) {
    texts_.push_back(run.tokens);
    ledger_->release(run.id, now_);
    running_.erase(running_.begin() + (&run - running_.data()));
  }

  void check() {
    if (const std::string broken = ledger_->verify(); !broken.empty()) RC_FAIL(broken);
    for (const Run& run : running_) {
      if (ledger_->length(run.id) - ledger_->dropped(run.id) != run.rows.size())
        RC_FAIL("length and dropped rows do not give the rows of the view");
      for (std::size_t i = 0; i < run.rows.size(); ++i)
        if (slot(run, i) != run.rows[i])
          RC_FAIL(str_cat("row ", i, " of a view holds the K/V of another text"));
    }
    for (const TokenList& text : texts_) check_plan(text);
  }
  void check_plan(TokenList text) {
    text.push_back(TokenId{1});
    const kv::ReusePlan plan =
        ledger_->plan(space_of("a"), text, {kv::ReuseScope::kSegments, 1e9F});
    if (plan.approximate_tokens > 0) RC_FAIL("what is trimmed was published");
    for (std::uint32_t i = 0; i < plan.exact_tokens; ++i) {
      const BlockId block = i / kBlockSize < plan.exact_blocks.size()
                                ? plan.exact_blocks[i / kBlockSize]
                                : plan.partial_block;
      if (arena_[to_int(block) * std::size_t{kBlockSize} + i % kBlockSize] != text_of(text, i + 1))
        RC_FAIL("a plan calls exact what was computed behind a cut");
    }
  }

  std::unique_ptr<kv::Ledger> ledger_;
  std::vector<Hash128> arena_;  // by slot
  std::vector<Run> running_;
  std::vector<TokenList> texts_;
  std::uint64_t next_id_ = 1;
  Tick now_ = 0;
};

std::uint64_t run_operations(std::uint32_t least_blocks, std::uint32_t most_blocks) {
  kv::LedgerOptions options{.block_size = kBlockSize};
  options.block_count = any_of(least_blocks, most_blocks + 1);
  options.max_cached_blocks = *rc::gen::element(0U, 0U, 6U);
  options.prefix_cache = any_of(0, 6) > 0;
  TrimDriver driver(options);
  const int count = any_of(1, 120);
  for (int i = 0; i < count; ++i) driver.any_operation();
  driver.finish();
  return driver.trimmed();
}

TEST(TrimmingProperty, ViewsAndReferenceCountsAreSoundInATinyPool) {
  EXPECT_TRUE(rc::check([] { run_operations(6, 24); }));
}

TEST(TrimmingProperty, ViewsAndReferenceCountsAreSoundInALargePool) {
  std::uint64_t trimmed = 0;
  EXPECT_TRUE(rc::check([&] { trimmed += run_operations(40, 80); }));
  EXPECT_GT(trimmed, 10'000U);  // the lists above do trim
}

}  // namespace
}  // namespace refrain::test
