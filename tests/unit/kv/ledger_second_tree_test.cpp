// The second tree: what approximate sequences publish, who sees it, what wins, and what a run's
// known context is (A3, A4, A5; the next turn of a repaired dialogue).
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/ledger_fixture.h"

namespace refrain::test {
namespace {

constexpr std::uint32_t kBlockSize = 16;
constexpr float kAny = std::numeric_limits<float>::max();

// Texts that have nothing in common.
TokenList text(int which, std::size_t count) {
  return tokens_from(10'000 * which, count);
}
TokenList first(const TokenList& tokens, std::size_t count) {
  return TokenList(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count));
}

class SecondTree : public ::testing::Test {
 protected:
  void with_ledger(const kv::LedgerOptions& options) {
    fixture_ = std::make_unique<LedgerFixture>(options);
  }
  void TearDown() override { EXPECT_EQ(ledger().verify(), ""); }

  LedgerFixture& fixture() { return *fixture_; }
  kv::Ledger& ledger() { return *fixture_->ledger; }
  kv::ReusePlan plan(const TokenList& prompt, float max_divergence = kAny) {
    return ledger().plan(space_of("a"), prompt, {kv::ReuseScope::kSegments, max_divergence});
  }
  kv::Admission admit(std::uint64_t id, const TokenList& prompt, float max_divergence = kAny,
                      std::uint32_t generated = 100) {
    return ledger()
        .admit(SequenceId{id}, plan(prompt, max_divergence),
               static_cast<std::uint32_t>(prompt.size()) + generated, ++fixture_->now)
        .value();
  }
  // A whole request that moves what it can and is estimated to diverge by that.
  kv::Admission serve(const TokenList& prompt, float divergence, const TokenList& reply = {}) {
    const kv::Admission admission = admit(++last_id_, prompt);
    ledger().set_divergence(SequenceId{last_id_}, divergence);
    fixture().prefill(last_id_, prompt);
    fixture().step(last_id_, reply);
    fixture().release(last_id_);
    EXPECT_EQ(ledger().verify(), "");
    return admission;
  }

 private:
  std::unique_ptr<LedgerFixture> fixture_ =
      std::make_unique<LedgerFixture>(kv::LedgerOptions{.block_count = 80});
  std::uint64_t last_id_ = 0;
};

// turn 1   [ system 40 | passage 100, moved | question 20 | reply 30 ]      turn 2 goes on behind
// it
TEST_F(SecondTree, TheNextTurnOfARepairedDialogueFindsAllOfIt) {
  const TokenList passage = text(2, 100);
  fixture().serve(joined(text(1, 32), passage));
  const TokenList prompt = joined(joined(text(5, 40), passage), text(6, 20));
  ASSERT_EQ(serve(prompt, 0.02F, text(7, 30)).runs.size(), 1U);
  const TokenList next = joined(joined(prompt, text(7, 30)), text(8, 10));
  const kv::ReusePlan found = plan(next);
  EXPECT_EQ(found.exact_tokens, 32U);  // the block in which the passage begins is approximate
  EXPECT_EQ(found.approximate_tokens, 190U - 32U);
  EXPECT_EQ(found.exact_blocks.size(), 2U);
  EXPECT_EQ(found.approximate_blocks.size(), 9U);
  EXPECT_EQ(found.partial_tokens, 14U);
  EXPECT_EQ(found.divergence, 0.02F);
  EXPECT_TRUE(found.runs.empty());
  using enum kv::Provenance;
  EXPECT_EQ(found.spans,
            (std::vector<kv::Span>{{0, 32, kExact}, {32, 190, kApproximate}, {190, 200, kFresh}}));
  EXPECT_EQ(ledger().counts().approximate, 10U);
}

// The prompt of the tests below: its passage is stored behind other text.
class RepairedDialogue : public SecondTree {
 protected:
  void SetUp() override { fixture().serve(joined(text(1, 32), passage_)); }
  std::uint32_t found(const TokenList& prompt, float max_divergence = kAny) {
    return plan(prompt, max_divergence).prefix_tokens();
  }

  const TokenList passage_ = text(2, 96);
  const TokenList prompt_ = joined(joined(text(5, 32), passage_), text(6, 20));  // 148 tokens
  const TokenList next_ = joined(prompt_, text(8, 10));
};

TEST_F(RepairedDialogue, OnlyRequestsThatAllowItSeeTheSecondTree) {
  serve(prompt_, 0.02F);
  EXPECT_EQ(fixture().found(next_), 32U);
  EXPECT_EQ(fixture().found(next_, "b"), 0U);
  EXPECT_EQ(found(next_, 0.02F), 148U);
  EXPECT_EQ(found(next_, 0.019F), 32U);
  EXPECT_EQ(ledger().plan(space_of("a"), next_, {kv::ReuseScope::kExact, kAny}).prefix_tokens(),
            32U);
  EXPECT_EQ(ledger().plan(space_of("b"), next_, {kv::ReuseScope::kSegments, kAny}).prefix_tokens(),
            0U);
  EXPECT_EQ(fixture().reason(next_), kv::MissReason::kEnded);
  EXPECT_EQ(plan(first(next_, 149)).reason, kv::MissReason::kNone);
}

TEST_F(RepairedDialogue, TheWholePromptIsNeverReused) {
  serve(prompt_, 0.02F);
  const kv::ReusePlan again = plan(prompt_);
  EXPECT_EQ(again.prefix_tokens(), 147U);
  EXPECT_EQ(again.partial_tokens, 3U);
}

TEST_F(RepairedDialogue, WithoutAnEstimateNothingApproximateIsPublished) {
  admit(1, prompt_);
  fixture().prefill(1, prompt_);
  EXPECT_EQ(found(next_), 32U);
  EXPECT_EQ(ledger().counts().approximate, 0U);
  ledger().set_divergence(SequenceId{1}, 0.5F);  // what is committed is published at once
  EXPECT_EQ(ledger().verify(), "");
  EXPECT_EQ(found(next_), 144U);
  EXPECT_EQ(plan(next_).divergence, 0.5F);
  fixture().release(1);
  EXPECT_EQ(found(next_), 148U);
}

TEST_F(RepairedDialogue, EstimatesAddUpAlongTheSecondTree) {
  serve(prompt_, 0.02F);
  const TokenList turn_2 = joined(next_, text(9, 60));
  const kv::Admission second = admit(1, turn_2);  // nothing is moved: its plan's estimate goes on
  EXPECT_EQ(second.cached_tokens, 148U);
  EXPECT_TRUE(second.runs.empty());
  fixture().prefill(1, turn_2);
  fixture().release(1);
  EXPECT_EQ(found(joined(turn_2, text(11, 1))), turn_2.size());
  EXPECT_EQ(plan(joined(turn_2, text(11, 1))).divergence, 0.02F);

  const TokenList turn_3 = joined(joined(turn_2, text(11, 10)), joined(passage_, text(12, 30)));
  ASSERT_EQ(serve(turn_3, 0.05F).runs.size(), 1U);
  const TokenList turn_4 = joined(turn_3, text(13, 1));
  EXPECT_EQ(found(turn_4), turn_3.size());
  EXPECT_EQ(plan(turn_4).divergence, 0.05F);
  const kv::ReusePlan strict = plan(turn_4, 0.03F);
  EXPECT_EQ(strict.prefix_tokens(), 224U);  // the last whole block in front of the second run
  EXPECT_EQ(strict.divergence, 0.02F);
  EXPECT_EQ(strict.runs.size(), 1U);
  EXPECT_EQ(ledger().totals().approximate_tokens, 148U - 32U + turn_2.size() - 32U);
}

TEST_F(RepairedDialogue, ExactStateIsPreferredWhereItReachesAsFar) {
  serve(prompt_, 0.02F, text(7, 30));
  const TokenList with_reply = joined(joined(prompt_, text(7, 30)), text(8, 1));
  fixture().serve(prompt_);  // the exact version, computed later
  const kv::ReusePlan exact = plan(next_);
  EXPECT_EQ(exact.exact_tokens, 148U);
  EXPECT_EQ(exact.approximate_tokens, 0U);
  EXPECT_EQ(exact.divergence, 0.0F);
  const kv::ReusePlan longer = plan(with_reply);  // the reply is stored in the second tree only
  EXPECT_EQ(longer.exact_tokens, 32U);
  EXPECT_EQ(longer.approximate_tokens, 178U - 32U);
  fixture().serve(joined(prompt_, text(7, 30)));
  EXPECT_EQ(plan(with_reply).exact_tokens, 178U);
}

TEST_F(RepairedDialogue, OfTwoOfEqualLengthTheOneWithMoreExactTextWins) {
  serve(prompt_, 0.02F);
  fixture().serve(first(prompt_, 48));
  // Moves the rest of the passage only, and so begins the second tree behind 48 exact tokens.
  ASSERT_EQ(ledger().plan(space_of("a"), prompt_, {kv::ReuseScope::kSegments, 0.01F}).exact_tokens,
            48U);
  admit(1, joined(first(prompt_, 128), text(20, 4)), 0.01F);
  ledger().set_divergence(SequenceId{1}, 0.04F);
  fixture().prefill(1, joined(first(prompt_, 128), text(20, 4)));
  fixture().release(1);
  const kv::ReusePlan tie = plan(joined(first(prompt_, 128), text(21, 4)));
  EXPECT_EQ(tie.exact_tokens, 48U);
  EXPECT_EQ(tie.approximate_tokens, 80U);
  EXPECT_EQ(tie.divergence, 0.04F);
  EXPECT_EQ(plan(joined(first(prompt_, 128), text(21, 4)), 0.02F).exact_tokens, 32U);
  EXPECT_EQ(plan(next_).exact_tokens, 32U);  // the first one goes on
}

TEST_F(RepairedDialogue, ApproximateStateIsNeverMoved) {
  serve(joined(prompt_, text(9, 96)), 0.02F);
  // Neither the text behind the passage is found elsewhere, nor the moved copy.
  const kv::ReusePlan moved =
      plan(joined(joined(text(10, 5), joined(passage_, text(6, 20))), joined(text(9, 96), {})));
  ASSERT_EQ(moved.runs.size(), 1U);
  EXPECT_EQ(moved.runs[0].length, 96U);
  EXPECT_EQ(moved.runs[0].source_begin, 32);
}

// The first of two that compute the same at the same time is kept, unless the other is better.
TEST_F(RepairedDialogue, ALowerEstimateReplacesAHigherOne) {
  serve(prompt_, 0.08F);
  EXPECT_EQ(found(next_, 0.05F), 32U);
  admit(1, prompt_, 0.05F);
  ledger().set_divergence(SequenceId{1}, 0.03F);
  fixture().prefill(1, prompt_);
  fixture().release(1);
  EXPECT_EQ(found(next_, 0.05F), 144U);  // the last block of the other is as long
  EXPECT_EQ(plan(next_, 0.05F).divergence, 0.03F);
  admit(2, prompt_, 0.0F);
  ledger().set_divergence(SequenceId{2}, 0.09F);
  fixture().prefill(2, prompt_);
  EXPECT_EQ(ledger().verify(), "");
  fixture().release(2);
  EXPECT_EQ(plan(next_, 0.05F).divergence, 0.03F);
}

// A better block that nobody uses is kept beside ours only while no promise needs the room.
TEST_F(RepairedDialogue, ABetterTwinIsGivenUpBeforeAPromiseIs) {
  admit(1, prompt_);
  admit(2, prompt_, kAny, 0);
  ledger().set_divergence(SequenceId{1}, 0.03F);
  fixture().prefill(1, prompt_);
  fixture().release(1);
  ledger().set_divergence(SequenceId{2}, 0.09F);
  ledger().append(SequenceId{2}, prompt_, ++fixture().now);
  const kv::LedgerCounts now = ledger().counts();
  admit(3, text(30, (now.free + now.evictable - now.reserved) * kBlockSize), kAny, 0);
  ledger().commit(SequenceId{2});  // lets the 6 blocks of its source go: there is room for 6
  EXPECT_EQ(ledger().verify(), "");
  EXPECT_EQ(found(next_, 0.05F), (2U + 6U) * kBlockSize);
  EXPECT_EQ(found(next_, 0.09F), 148U);
  fixture().release(2);
  fixture().release(3);
}

TEST_F(RepairedDialogue, DroppingASpaceDropsItsSecondTree) {
  serve(prompt_, 0.02F);
  EXPECT_EQ(ledger().drop(space_of("b")), 0U);
  EXPECT_EQ(ledger().drop(space_of("a")), 8U + 2U + 8U);
  EXPECT_EQ(ledger().counts().approximate, 0U);
  EXPECT_EQ(ledger().counts().free, 80U);
}

TEST_F(RepairedDialogue, ApproximateBlocksAreEvictedBeforeWhatTheyHangBelow) {
  serve(prompt_, 0.02F);
  admit(1, next_, kAny, 0);
  fixture().prefill(1, next_);
  fixture().release(1);
  const std::uint32_t stored = 80U - ledger().counts().free;
  fixture().serve(text(30, (80 - stored + 8 + 3) * kBlockSize));  // the source and three more
  EXPECT_EQ(fixture().found(next_), 32U);
  EXPECT_EQ(found(next_), 144U - 2 * kBlockSize);
}

// rows up to the first run | all else in one call: one step of it is committed at the end
TEST_F(RepairedDialogue, AllBehindTheFirstRunCanBeOneStep) {
  const TokenList twice = joined(prompt_, joined(passage_, text(9, 7)));
  ASSERT_EQ(admit(1, twice).runs.size(), 2U);
  fixture().step(1, first(twice, 32));
  EXPECT_EQ(ledger().counts().pinned, 2U + 6U);
  ledger().append(SequenceId{1}, std::span(twice).subspan(32), ++fixture().now);
  EXPECT_EQ(ledger().drop_all(), 2U);  // what stands in front of the source
  EXPECT_EQ(ledger().counts().pinned, 16U + 6U);
  ledger().set_divergence(SequenceId{1}, 0.01F);
  EXPECT_EQ(ledger().counts().approximate, 0U);  // nothing of it is committed
  ledger().commit(SequenceId{1});
  EXPECT_EQ(ledger().counts().pinned, 16U);
  EXPECT_EQ(ledger().verify(), "");
  fixture().release(1);
  EXPECT_EQ(found(joined(twice, text(8, 1))), twice.size());
}

// A refusal after all has been moved: the rows are rolled back, the runs forgone.
TEST_F(RepairedDialogue, RowsThatAreRolledBackCanBeForgone) {
  ASSERT_EQ(admit(1, prompt_).runs.size(), 1U);
  fixture().step(1, first(prompt_, 32));
  ledger().append(SequenceId{1}, std::span(prompt_).subspan(32), ++fixture().now);
  ledger().set_divergence(SequenceId{1}, 0.7F);
  ledger().rollback(SequenceId{1});
  ledger().forgo_runs(SequenceId{1});
  EXPECT_EQ(ledger().verify(), "");
  EXPECT_EQ(ledger().counts().pinned, 2U);
  fixture().prefill(1, prompt_);
  fixture().release(1);
  EXPECT_EQ(fixture().found(next_), 148U);
  EXPECT_EQ(ledger().counts().approximate, 0U);
}

TEST_F(RepairedDialogue, ForgoneRunsBehindApproximateStateLeaveItAsApproximateAsThat) {
  serve(prompt_, 0.02F);
  const TokenList turn_2 = joined(next_, joined(passage_, text(9, 60)));
  ASSERT_EQ(admit(1, turn_2).runs.size(), 1U);
  fixture().step(1, TokenList(turn_2.begin() + 148, turn_2.begin() + 158));
  ledger().append(SequenceId{1}, std::span(turn_2).subspan(158), ++fixture().now);
  ledger().set_divergence(SequenceId{1}, 0.7F);
  ledger().rollback(SequenceId{1});
  ledger().forgo_runs(SequenceId{1});
  fixture().prefill(1, turn_2);
  fixture().release(1);
  const kv::ReusePlan after = plan(joined(turn_2, text(8, 1)));
  EXPECT_EQ(after.exact_tokens, 32U);
  EXPECT_EQ(after.prefix_tokens(), turn_2.size());
  EXPECT_EQ(after.divergence, 0.02F);
}

TEST_F(SecondTree, ShortMatchesOfBothTreesTogetherAreNoHits) {
  kv::LedgerOptions options{.block_count = 80};
  options.min_match_blocks = 8;
  with_ledger(options);
  const TokenList passage = text(2, 128);
  fixture().serve(joined(text(1, 32), passage));
  const TokenList prompt = joined(joined(text(5, 16), passage), text(6, 4));
  ASSERT_EQ(serve(prompt, 0.02F).runs.size(), 1U);
  EXPECT_EQ(plan(joined(first(prompt, 128), text(7, 4))).prefix_tokens(), 128U);
  const kv::ReusePlan shorter = plan(joined(first(prompt, 127), text(7, 4)));
  EXPECT_EQ(shorter.prefix_tokens(), 0U);
  EXPECT_TRUE(shorter.approximate_blocks.empty());
  EXPECT_EQ(shorter.reason, kv::MissReason::kShort);
}

TEST_F(RepairedDialogue, APlanIsRefusedWhenItsApproximateBlocksHaveGone) {
  serve(prompt_, 0.02F);
  const kv::ReusePlan old = plan(next_);
  ledger().drop_all();
  EXPECT_DEATH((void)ledger().admit(SequenceId{9}, old, 200, 1), "has changed since");
}

TEST_F(SecondTree, AnEstimateIsANumber) {
  admit(1, text(1, 20));
  EXPECT_DEATH(ledger().set_divergence(SequenceId{1}, kAny * 2), "finite");
  EXPECT_DEATH(ledger().set_divergence(SequenceId{1}, -1), "not negative");
  EXPECT_DEATH(ledger().set_divergence(SequenceId{1}, std::nanf("")), "finite");
  fixture().release(1);
}

// ---- known context

//   stored [ system 64 | field 32 | tail 128 ]      prompt [ system 64 | other field 48 | tail ]
TEST_F(SecondTree, ARunBehindAnEditKnowsMostOfItsContext) {
  const TokenList system = text(1, 64), tail = text(3, 128);
  fixture().serve(joined(system, joined(text(2, 32), tail)));
  const kv::ReusePlan edited = plan(joined(joined(system, text(4, 48)), joined(tail, text(5, 1))));
  ASSERT_EQ(edited.runs.size(), 1U);
  EXPECT_FLOAT_EQ(edited.runs[0].known_context, 4.0F / 6);
}

//   stored [ a 128 | b 128 | c 128 ]
TEST_F(SecondTree, WhatStandsInEarlierRunsIsKnownContext) {
  const TokenList a = text(1, 128), b = text(2, 128), c = text(3, 128), end = text(9, 1);
  fixture().serve(joined(a, joined(b, c)));
  const kv::ReusePlan swapped = plan(joined(joined(text(7, 16), c), joined(b, joined(a, end))));
  ASSERT_EQ(swapped.runs.size(), 3U);
  EXPECT_EQ(swapped.runs[0].known_context, 0.0F);
  EXPECT_EQ(swapped.runs[1].known_context, 0.0F);
  EXPECT_EQ(swapped.runs[2].known_context, 1.0F);  // nothing stood in front of it

  const kv::ReusePlan without_b = plan(joined(joined(text(7, 20), a), joined(c, end)));
  ASSERT_EQ(without_b.runs.size(), 2U);
  EXPECT_FLOAT_EQ(without_b.runs[1].known_context, 0.5F);
  const kv::ReusePlan exact_a = plan(joined(a, joined(c, end)));
  ASSERT_EQ(exact_a.runs.size(), 1U);
  EXPECT_FLOAT_EQ(exact_a.runs[0].known_context, 0.5F);
  const kv::ReusePlan all = plan(joined(
      joined(text(7, 20), a), joined(joined(text(8, 16), b), joined(text(6, 16), joined(c, end)))));
  ASSERT_EQ(all.runs.size(), 3U);
  EXPECT_EQ(all.runs[1].known_context, 1.0F);
  EXPECT_EQ(all.runs[2].known_context, 1.0F);
}

// The block between them is evicted: what stood further in front is not known any more.
TEST_F(SecondTree, AboveADetachedBlockTheContextIsUnknown) {
  const TokenList a = text(1, 128), c = text(3, 128);
  fixture().serve(joined(a, joined(text(2, 32), c)));
  const TokenList prompt = joined(joined(text(7, 20), a), joined(c, text(9, 1)));
  ASSERT_EQ(plan(prompt).runs.size(), 2U);
  EXPECT_FLOAT_EQ(plan(prompt).runs[1].known_context, 8.0F / 10);
  admit(1, prompt);
  EXPECT_EQ(ledger().drop_all(), 2U);
  ASSERT_EQ(plan(prompt).runs.size(), 2U);
  EXPECT_EQ(plan(prompt).runs[1].known_context, 0.0F);
  fixture().release(1);
}

}  // namespace
}  // namespace refrain::test
