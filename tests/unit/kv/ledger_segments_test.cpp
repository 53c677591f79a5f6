// Segments in the ledger: what a plan finds behind its exact prefix, what is pinned for how long,
// what is never published, and what is evicted (A3, A4, A5, A13; O-01, O-07, O-10 their finding).
#include <gtest/gtest.h>

#include "base/rng.h"
#include "support/ledger_fixture.h"

namespace refrain::test {
namespace {

constexpr std::uint32_t kBlockSize = 16;

kv::LedgerOptions options_of(std::uint32_t block_count) {
  kv::LedgerOptions options;
  options.block_size = kBlockSize;
  options.block_count = block_count;
  return options;
}

// Texts that have nothing in common.
TokenList text(int which, std::size_t count) {
  return tokens_from(10'000 * which, count);
}
TokenList cut(const TokenList& tokens, std::size_t begin, std::size_t end) {
  return TokenList(tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                   tokens.begin() + static_cast<std::ptrdiff_t>(end));
}

class LedgerSegments : public ::testing::Test {
 protected:
  void with_blocks(std::uint32_t count, kv::LedgerOptions options = options_of(0)) {
    options.block_count = count;
    fixture_ = std::make_unique<LedgerFixture>(options);
  }
  void TearDown() override { EXPECT_EQ(ledger().verify(), ""); }

  LedgerFixture& fixture() { return *fixture_; }
  kv::Ledger& ledger() { return *fixture_->ledger; }
  kv::ReusePlan plan(const TokenList& prompt, std::string_view tenant = "a") {
    return ledger().plan(space_of(tenant), prompt, kv::ReuseScope::kSegments);
  }
  kv::Admission admit(std::uint64_t id, const TokenList& prompt, std::uint32_t generated = 0) {
    return ledger()
        .admit(SequenceId{id}, plan(prompt), static_cast<std::uint32_t>(prompt.size()) + generated,
               ++fixture_->now)
        .value();
  }
  // Whole request that moves what it can.
  kv::Admission serve_moved(std::uint64_t id, const TokenList& prompt) {
    kv::Admission admission = admit(id, prompt);
    fixture_->prefill(id, prompt);
    fixture_->release(id);
    return admission;
  }

 private:
  std::unique_ptr<LedgerFixture> fixture_ = std::make_unique<LedgerFixture>(options_of(64));
};

// stored   [ system 40 | a 100 | b 90 | question ]
// prompt   [ system 40 | b 90 | a 100 | other question ]
TEST_F(LedgerSegments, A5PassagesInAnotherOrderAreFoundBehindTheExactPrefix) {
  const TokenList system = text(1, 40), a = text(2, 100), b = text(3, 90);
  fixture().serve(joined(joined(system, joined(a, b)), text(4, 20)));
  const kv::ReusePlan found = plan(joined(joined(system, joined(b, a)), text(5, 20)));
  EXPECT_EQ(found.exact_tokens, 40U);
  ASSERT_EQ(found.runs.size(), 2U);
  EXPECT_EQ(found.runs[0].begin, 40);
  EXPECT_EQ(found.runs[0].length, 90U);
  EXPECT_EQ(found.runs[0].source_begin, 140);
  EXPECT_EQ(found.runs[0].first_row, 140U % kBlockSize);
  EXPECT_EQ(found.runs[0].blocks.size(), 7U);  // 140 .. 229 touch blocks 8 .. 14
  EXPECT_EQ(found.runs[1].begin, 130);
  EXPECT_EQ(found.runs[1].length, 100U);
  EXPECT_EQ(found.runs[1].source_begin, 40);
  using enum kv::Provenance;
  EXPECT_EQ(found.spans,
            (std::vector<kv::Span>{
                {0, 40, kExact}, {40, 130, kMoved}, {130, 230, kMoved}, {230, 250, kFresh}}));
}

TEST_F(LedgerSegments, WithoutAskingForSegmentsThereAreNone) {
  const TokenList a = text(2, 100);
  fixture().serve(joined(text(1, 40), a));
  const kv::ReusePlan exact = ledger().plan(space_of("a"), joined(text(3, 7), a));
  EXPECT_TRUE(exact.runs.empty());
  EXPECT_EQ(exact.spans.size(), 1U);
}

// A history cut at the front, a changed timestamp at the top: the tail is found at its new place.
TEST_F(LedgerSegments, A3A13ATailThatMovedByAnyOffsetIsFoundWhole) {  // O-07
  const TokenList tail = text(2, 300);
  fixture().serve(joined(text(1, 55), tail));
  for (const std::size_t head : {0U, 1U, 15U, 16U, 39U, 54U, 55U, 70U}) {
    const TokenList prompt = joined(joined(text(7, head), tail), text(8, 1));
    const kv::ReusePlan found = plan(prompt);
    ASSERT_EQ(found.runs.size(), 1U) << head;
    EXPECT_EQ(found.runs[0].begin, static_cast<Position>(head));
    EXPECT_EQ(found.runs[0].length, 300U);
    EXPECT_EQ(found.runs[0].source_begin, 55);
  }
}

// stored   [ system 48 | turn 1 | turn 2 | turn 3 ]
// prompt   [ system 48 | turn 2 | turn 3 | turn 4 ]
TEST_F(LedgerSegments, A13AHistoryCutAtItsFrontIsFoundBehindTheSystemPrompt) {  // A3, A5
  const TokenList system = text(1, 48), kept = joined(text(3, 80), text(4, 90));
  fixture().serve(joined(system, joined(text(2, 100), kept)));
  const kv::ReusePlan cut_history = plan(joined(joined(system, kept), text(5, 30)));
  EXPECT_EQ(cut_history.exact_tokens, 48U);  // both in one lookup
  ASSERT_EQ(cut_history.runs.size(), 1U);
  EXPECT_EQ(cut_history.runs[0].begin, 48);
  EXPECT_EQ(cut_history.runs[0].length, 170U);
  EXPECT_EQ(cut_history.runs[0].source_begin, 148);
  EXPECT_FLOAT_EQ(cut_history.runs[0].known_context, 3.0F / 9);
}

TEST_F(LedgerSegments, A4O01TwoCutsAndASwapAreAllFound) {
  TokenList all;
  std::vector<TokenList> letter;
  for (int i = 0; i < 6; ++i) {
    letter.push_back(text(1 + i, 80));
    all = joined(all, letter.back());
  }
  fixture().serve(all);
  const auto prompt_of = [&](std::initializer_list<int> order) {
    TokenList prompt;
    for (int i : order) prompt = joined(prompt, letter[static_cast<std::size_t>(i)]);
    return joined(prompt, text(9, 1));
  };
  const kv::ReusePlan without = plan(prompt_of({0, 2, 4, 5}));  // E and F are neighbours still
  EXPECT_EQ(without.exact_tokens, 80U);
  ASSERT_EQ(without.runs.size(), 2U);
  EXPECT_EQ(without.runs[0].source_begin, 160);
  EXPECT_EQ(without.runs[1].source_begin, 320);
  EXPECT_EQ(without.runs[1].length, 160U);
  const kv::ReusePlan swapped = plan(prompt_of({0, 4, 2, 5}));
  ASSERT_EQ(swapped.runs.size(), 3U);
  EXPECT_EQ(swapped.runs[0].source_begin, 320);
  EXPECT_EQ(swapped.runs[1].source_begin, 160);
  EXPECT_EQ(swapped.runs[2].source_begin, 400);
}

TEST_F(LedgerSegments, TheLastTokenIsNeverReusedAndShortRunsAreNot) {
  const TokenList a = text(2, 200);
  fixture().serve(joined(text(1, 30), a));
  ASSERT_EQ(plan(joined(text(5, 3), a)).runs.size(), 1U);
  EXPECT_EQ(plan(joined(text(5, 3), a)).runs[0].length, 199U);
  EXPECT_EQ(plan(joined(text(5, 3), cut(a, 0, 65))).runs.size(), 1U);
  EXPECT_EQ(plan(joined(text(5, 3), cut(a, 0, 64))).runs.size(), 0U);
  EXPECT_EQ(plan({}).runs.size(), 0U);
  EXPECT_EQ(plan(text(2, 1)).runs.size(), 0U);

  kv::LedgerOptions options = options_of(0);
  options.min_match_blocks = 6;
  with_blocks(64, options);
  fixture().serve(joined(text(1, 30), a));
  EXPECT_EQ(plan(joined(text(5, 3), cut(a, 0, 97))).runs.size(), 1U);
  EXPECT_EQ(plan(joined(text(5, 3), cut(a, 0, 96))).runs.size(), 0U);
}

TEST_F(LedgerSegments, ATenantSeesNoSegmentsOfAnother) {
  const TokenList a = text(2, 200);
  fixture().serve(joined(text(1, 30), a), {}, "a");
  EXPECT_EQ(plan(joined(text(5, 3), a), "b").runs.size(), 0U);
  fixture().serve(joined(text(1, 30), a), {}, "b");
  ASSERT_EQ(plan(joined(text(5, 3), a), "b").runs.size(), 1U);
  EXPECT_NE(plan(joined(text(5, 3), a), "b").runs[0].blocks,
            plan(joined(text(5, 3), a), "a").runs[0].blocks);
}

// Captured in place, inside a running request, as soon as its blocks are committed.
TEST_F(LedgerSegments, WhatARunningRequestHasCommittedIsFound) {
  const TokenList a = text(2, 100);
  const TokenList prompt = joined(text(1, 28), a);
  ASSERT_TRUE(fixture().admit(1, prompt, 50).ok());
  EXPECT_EQ(plan(joined(text(5, 3), a)).runs.size(), 0U);
  fixture().prefill(1, prompt);
  ASSERT_EQ(plan(joined(text(5, 3), a)).runs.size(), 1U);
  EXPECT_EQ(plan(joined(text(5, 3), a)).runs[0].length, 99U);
  fixture().release(1);
}

TEST_F(LedgerSegments, SourcesStayPinnedUntilTheEndOfTheirRunIsCommitted) {
  const TokenList a = text(2, 96), b = text(3, 96);
  fixture().serve(joined(joined(text(1, 32), a), b));
  EXPECT_EQ(ledger().counts().pinned, 0U);
  const TokenList prompt =
      joined(joined(text(5, 16), b), joined(text(6, 16), joined(a, text(7, 1))));
  const kv::Admission admission = admit(1, prompt);
  EXPECT_EQ(admission.cached_tokens, 0U);
  ASSERT_EQ(admission.runs.size(), 2U);
  EXPECT_EQ(ledger().counts().pinned, 12U);
  EXPECT_EQ(ledger().drop_all(), 2U);  // the 32 tokens in front
  EXPECT_EQ(ledger().verify(), "");
  fixture().step(1, cut(prompt, 0, 111));  // one token short of the end of the first run
  EXPECT_EQ(ledger().counts().pinned, 12U + 7U);
  fixture().step(1, cut(prompt, 111, 112));
  EXPECT_EQ(ledger().counts().pinned, 6U + 7U);
  fixture().step(1, cut(prompt, 112, prompt.size()));
  EXPECT_EQ(ledger().counts().pinned, 15U);
  fixture().release(1);
  EXPECT_EQ(ledger().counts().pinned, 0U);
  EXPECT_EQ(ledger().totals().moved_tokens, 192U);
}

TEST_F(LedgerSegments, ReleaseBeforeTheFirstStepLetsTheSourcesGo) {
  const TokenList a = text(2, 96);
  fixture().serve(joined(text(1, 32), a));
  admit(1, joined(text(5, 16), joined(a, text(7, 1))));
  EXPECT_EQ(ledger().counts().pinned, 6U);
  fixture().release(1);
  EXPECT_EQ(ledger().counts().pinned, 0U);
}

// prompt  [ head 40 | a 96, moved | fresh 30 ]     only the head may ever be found again
TEST_F(LedgerSegments, MovedRowsAndWhatIsComputedBehindThemAreNeverPublished) {
  const TokenList head = text(5, 40), a = text(2, 96), fresh = text(6, 90);
  fixture().serve(joined(text(1, 32), a));
  const TokenList prompt = joined(joined(head, a), fresh);
  ASSERT_EQ(serve_moved(1, prompt).runs.size(), 1U);
  EXPECT_EQ(fixture().found(prompt), 40U);  // two blocks and a part
  // The passage is still found where it was computed, the text behind it nowhere.
  const kv::ReusePlan again = plan(joined(joined(text(8, 3), a), joined(fresh, text(9, 1))));
  ASSERT_EQ(again.runs.size(), 1U);
  EXPECT_EQ(again.runs[0].length, 96U);
  EXPECT_EQ(again.runs[0].source_begin, 32);
}

TEST_F(LedgerSegments, RunsThatAreForgoneLeaveAnExactSequence) {
  const TokenList head = text(5, 40), a = text(2, 96);
  fixture().serve(joined(text(1, 32), a));
  const TokenList prompt = joined(joined(head, a), text(6, 30));
  ASSERT_EQ(admit(1, prompt).runs.size(), 1U);
  fixture().step(1, head);
  ledger().append(SequenceId{1}, cut(prompt, 40, 60), ++fixture().now);
  ledger().rollback(SequenceId{1});
  ledger().forgo_runs(SequenceId{1});
  EXPECT_EQ(ledger().counts().pinned, 3U);
  EXPECT_EQ(ledger().verify(), "");
  fixture().prefill(1, prompt);
  fixture().release(1);
  EXPECT_EQ(fixture().found(prompt), prompt.size() - 1);
}

TEST_F(LedgerSegments, RunsAreGivenUpBeforeARequestWaits) {
  with_blocks(16);
  const TokenList a = text(2, 96);
  fixture().serve(joined(text(1, 32), a));                               // 8 blocks
  const TokenList prompt = joined(joined(text(5, 16), a), text(6, 16));  // 8 blocks and 6 sources
  ASSERT_EQ(plan(prompt).runs.size(), 1U);
  EXPECT_EQ(admit(1, prompt, 2 * kBlockSize).runs.size(), 1U);
  fixture().release(1);
  EXPECT_TRUE(admit(2, prompt, 3 * kBlockSize).runs.empty());
  EXPECT_EQ(ledger().verify(), "");
  fixture().prefill(2, prompt);
  fixture().release(2);
  EXPECT_EQ(fixture().found(prompt), prompt.size() - 1);  // exact: nothing was moved
}

// chain   [ head: one question | hot passage | its answer ]    only the passage is asked for again
TEST_F(LedgerSegments, AHotSegmentStaysWhenItsHeadIsEvicted) {
  for (const kv::EvictionPolicy policy :
       {kv::EvictionPolicy::kLru, kv::EvictionPolicy::kLfu, kv::EvictionPolicy::kGdsf}) {
    kv::LedgerOptions options = options_of(0);
    options.policy = policy;
    with_blocks(40, options);
    const TokenList hot = text(2, 128);
    fixture().serve(joined(joined(text(1, 64), hot), text(3, 64)));  // 16 blocks
    for (int i = 0; i < 60; ++i) {
      const TokenList once = text(10 + i, 48);
      const kv::Admission admission =
          serve_moved(static_cast<std::uint64_t>(i), joined(joined(once, hot), text(4, 1)));
      ASSERT_EQ(admission.runs.size(), 1U) << i;
      EXPECT_EQ(admission.runs[0].length, 128U);
      EXPECT_EQ(admission.runs[0].source_begin, 64);
      ASSERT_EQ(ledger().verify(), "");
    }
    EXPECT_EQ(fixture().found(joined(text(1, 64), text(9, 1))), 0U);  // the head is gone
    // Computed again behind the same head, the text has blocks of its own.
    fixture().serve(joined(text(1, 64), hot));
    EXPECT_EQ(fixture().found(joined(joined(text(1, 64), hot), text(9, 1))), 192U);
    EXPECT_EQ(ledger().verify(), "");
  }
}

// Head and tail used in one tick, the tail as a segment and for longer: it still goes first.
TEST_F(LedgerSegments, OfAChainUsedAtTheSameTimeTheTailGoesFirst) {
  with_blocks(20);
  const TokenList head = text(1, 64), tail = text(2, 80);
  fixture().serve(joined(head, tail));  // 9 blocks
  const Tick now = 100;
  const TokenList whole = joined(joined(head, tail), text(3, 1)), moved = joined(tail, text(4, 1));
  (void)ledger().admit(SequenceId{1}, plan(whole), 145, now).value();
  (void)ledger().admit(SequenceId{2}, plan(moved), 81, now).value();
  ledger().release(SequenceId{1}, now);
  ledger().release(SequenceId{2}, now);
  fixture().serve(text(5, 13 * kBlockSize));  // two more blocks than are free
  EXPECT_EQ(fixture().found(whole), 144U - 2 * kBlockSize);
}

// Half of all passages come once, half are hot; each request moves what is stored.
TEST_F(LedgerSegments, OneTimersDoNotPushTheHotPassagesOut) {
  with_blocks(300);  // 4,800 tokens: the ten hot passages are 1,600
  std::vector<TokenList> hot;
  hot.reserve(10);
  for (int i = 0; i < 10; ++i) hot.push_back(text(1 + i, 160));
  Rng rng(5);
  std::uint64_t hits[2] = {0, 0};
  for (int query = 0; query < 300; ++query) {
    const TokenList& wanted = hot[rng.below(hot.size())];
    const TokenList once = text(20 + query, 160);
    const TokenList prompt = joined(joined(once, wanted), text(12, 1));
    const kv::Admission admission = serve_moved(static_cast<std::uint64_t>(query), prompt);
    if (query >= 100 && query < 150) hits[0] += admission.runs.size();
    if (query >= 250) hits[1] += admission.runs.size();
  }
  EXPECT_GE(hits[0], 45U);
  EXPECT_GE(hits[1] * 10, hits[0] * 8);
}

TEST_F(LedgerSegments, APlanThatIsNoLongerTrueIsRefused) {
  const TokenList a = text(2, 96);
  fixture().serve(joined(text(1, 32), a));
  const TokenList prompt = joined(joined(text(5, 16), a), text(6, 1));
  const kv::ReusePlan old = plan(prompt);
  ledger().drop_all();
  EXPECT_DEATH((void)ledger().admit(SequenceId{1}, old, 200, 1), "has changed since");
}

TEST_F(LedgerSegments, RowsOfARunCannotBeForgone) {
  const TokenList a = text(2, 96);
  fixture().serve(joined(text(1, 32), a));
  const TokenList prompt = joined(joined(text(5, 16), a), text(6, 1));
  admit(1, prompt);
  fixture().step(1, cut(prompt, 0, 17));
  EXPECT_DEATH(ledger().forgo_runs(SequenceId{1}), "rows of a run");
  fixture().release(1);
}

}  // namespace
}  // namespace refrain::test
