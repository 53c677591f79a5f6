// Ledger: what is found again, and why something is not (A1, A2; cases O-11).
#include <gtest/gtest.h>

#include "support/ledger_fixture.h"

namespace refrain::kv {
namespace {

using test::joined;
using test::LedgerFixture;
using test::tokens_from;

LedgerOptions pool_of(std::uint32_t blocks) {
  return LedgerOptions{.block_count = blocks};
}

TEST(LedgerReuse, ARepeatedPromptIsReusedUpToItsLastToken) {
  for (std::size_t length : {1U, 2U, 15U, 16U, 17U, 31U, 32U, 33U, 100U}) {
    LedgerFixture f(pool_of(32));
    const TokenList prompt = tokens_from(0, length);
    EXPECT_EQ(f.serve(prompt), 0U);
    EXPECT_EQ(f.reason(prompt), MissReason::kNone);
    EXPECT_EQ(f.serve(prompt), length - 1);
    EXPECT_EQ(f.ledger->verify(), "");
  }
}

TEST(LedgerReuse, TheNextTurnReusesPromptAndReply) {
  LedgerFixture f(pool_of(32));
  const TokenList prompt = tokens_from(0, 50);
  const TokenList reply = tokens_from(500, 21);
  f.serve(prompt, reply);
  const TokenList next = joined(joined(prompt, reply), tokens_from(900, 10));
  EXPECT_EQ(f.serve(next), 71U);
  EXPECT_EQ(f.serve(joined(next, tokens_from(950, 5))), 81U);
}

TEST(LedgerReuse, AHitInsideABlockIsACopyIntoAPrivateBlock) {  // A1 copy on write
  LedgerFixture f(pool_of(32));
  f.serve(tokens_from(0, 48));
  const TokenList fork = joined(tokens_from(0, 39), tokens_from(700, 20));
  const ReusePlan plan = f.ledger->plan(test::space_of("a"), fork);
  EXPECT_EQ(plan.exact_blocks.size(), 2U);
  EXPECT_EQ(plan.partial_tokens, 7U);
  EXPECT_EQ(plan.spans,
            (std::vector<Span>{{0, 39, Provenance::kExact}, {39, 59, Provenance::kFresh}}));
  const auto admission = f.ledger->admit(SequenceId{1}, plan, 59, 100);
  ASSERT_TRUE(admission.ok());
  ASSERT_EQ(admission->copies.size(), 1U);
  const BlockCopy copy = admission->copies[0];
  EXPECT_EQ(copy.row_count, 7U);
  EXPECT_EQ(copy.from, plan.partial_block);
  EXPECT_NE(copy.to, copy.from);
  EXPECT_EQ(f.ledger->table(SequenceId{1}),
            (BlockTable{plan.exact_blocks[0], plan.exact_blocks[1], copy.to}));
  EXPECT_EQ(f.ledger->totals().copied_blocks, 1U);
}

// B3: where the bits behind a row depend on the beginning of its tile, a prefix ends at one.
TEST(LedgerReuse, APrefixIsAMultipleOfTheReuseStep) {
  for (const std::uint32_t block_size : {16U, 32U}) {
    LedgerFixture f({.block_size = block_size, .block_count = 32, .reuse_step_tokens = 16});
    f.serve(tokens_from(0, 64));
    for (const std::uint32_t length : {1U, 15U, 16U, 17U, 31U, 39U, 47U, 48U, 60U, 64U}) {
      const TokenList fork = joined(tokens_from(0, length), tokens_from(700, 20));
      EXPECT_EQ(f.found(fork), length / 16 * 16) << "block size " << block_size;
      EXPECT_EQ(f.reason(fork), length < 64 ? MissReason::kDiverged : MissReason::kEnded);
    }
    // All that can be reused is, if not the last row.
    EXPECT_EQ(f.found(tokens_from(0, 64)), 48U);
    EXPECT_EQ(f.reason(tokens_from(0, 64)), MissReason::kNone);
    EXPECT_EQ(f.serve(joined(tokens_from(0, 39), tokens_from(700, 20))), 32U);
    EXPECT_EQ(f.ledger->verify(), "");
  }
}

TEST(LedgerReuse, TheSourceOfACopyCannotBeOverwrittenBeforeTheFirstStep) {
  LedgerFixture f(pool_of(4));
  f.serve(tokens_from(0, 16));                                              // 1 cached block
  ASSERT_TRUE(f.admit(1, joined(tokens_from(0, 9), tokens_from(700, 3))));  // copy of 9 rows
  ASSERT_TRUE(f.admit(2, tokens_from(400, 32)));
  f.prefill(2, tokens_from(400, 32));  // takes the rest of the pool
  EXPECT_EQ(f.ledger->counts().free, 0U);
  EXPECT_EQ(f.found(tokens_from(0, 17)), 16U);
  EXPECT_EQ(f.ledger->verify(), "");
}

TEST(LedgerReuse, TheReasonOfAMissSaysWhereTheStoredTextEndsOrDiffers) {
  LedgerFixture f(pool_of(64));
  EXPECT_EQ(f.reason(tokens_from(0, 40)), MissReason::kCold);
  f.serve(tokens_from(0, 40));
  EXPECT_EQ(f.reason(tokens_from(800, 40)), MissReason::kCold);
  EXPECT_EQ(f.reason(tokens_from(0, 60)), MissReason::kEnded);
  EXPECT_EQ(f.reason(joined(tokens_from(0, 36), tokens_from(900, 30))), MissReason::kDiverged);
  EXPECT_EQ(f.reason(joined(tokens_from(0, 32), tokens_from(900, 30))), MissReason::kDiverged);
  EXPECT_EQ(f.reason(tokens_from(0, 40)), MissReason::kNone);
  f.serve(tokens_from(600, 32));
  EXPECT_EQ(f.reason(tokens_from(600, 50)), MissReason::kEnded);
  EXPECT_EQ(f.reason({TokenId{5}}), MissReason::kNone);
}

TEST(LedgerReuse, AMatchShorterThanTheMinimumIsNoHit) {  // A8 min_match_blocks
  LedgerFixture f({.block_count = 32, .min_match_blocks = 2});
  f.serve(tokens_from(0, 40));
  EXPECT_EQ(f.found(joined(tokens_from(0, 31), tokens_from(900, 30))), 0U);
  EXPECT_EQ(f.reason(joined(tokens_from(0, 31), tokens_from(900, 30))), MissReason::kShort);
  EXPECT_EQ(f.serve(joined(tokens_from(0, 31), tokens_from(900, 30))), 0U);
  EXPECT_EQ(f.found(joined(tokens_from(0, 32), tokens_from(800, 30))), 32U);
  EXPECT_EQ(f.serve(tokens_from(0, 40)), 39U);
  EXPECT_EQ(f.reason(tokens_from(700, 40)), MissReason::kCold);
  EXPECT_EQ(f.ledger->verify(), "");
}

TEST(LedgerReuse, OfTwoTenantsNeitherSeesWhatTheOtherCached) {
  LedgerFixture f(pool_of(64));
  f.serve(tokens_from(0, 64), {}, "tenant one");
  EXPECT_EQ(f.found(tokens_from(0, 64), "tenant one"), 63U);
  EXPECT_EQ(f.found(tokens_from(0, 64), "tenant two"), 0U);
}

TEST(LedgerReuse, ALongerTailReplacesTheShorterOneAndTakesNoSecondBlock) {
  LedgerFixture f(pool_of(8));
  f.serve(tokens_from(0, 18));
  f.serve(tokens_from(0, 23));
  EXPECT_EQ(f.ledger->counts().evictable, 2U);
  EXPECT_EQ(f.found(tokens_from(0, 30)), 23U);
  f.serve(tokens_from(0, 20));  // covered by the longer one
  EXPECT_EQ(f.ledger->counts().evictable, 2U);
  EXPECT_EQ(f.ledger->verify(), "");
}

TEST(LedgerReuse, WhatARunningSequenceHasCommittedIsSharedAtOnce) {  // O-11
  LedgerFixture f(pool_of(256));
  const TokenList head = tokens_from(0, 1400);
  const TokenList a = joined(head, tokens_from(5000, 100));
  const TokenList b = joined(head, tokens_from(6000, 100));
  ASSERT_TRUE(f.admit(1, a, 50));
  f.prefill(1, a);
  EXPECT_EQ(f.admit(2, b, 50)->cached_tokens, 1400U);  // beside the running one
  const BlockTable& first = f.ledger->table(SequenceId{1});
  const BlockTable& second = f.ledger->table(SequenceId{2});
  EXPECT_TRUE(std::equal(first.begin(), first.begin() + 1400 / 16, second.begin()));
  EXPECT_EQ(f.ledger->verify(), "");
}

TEST(LedgerReuse, AnyConversationIsFoundAgainWhateverRanInBetween) {  // O-11
  LedgerFixture f(pool_of(512));
  const TokenList a = tokens_from(0, 1500);
  const TokenList b = tokens_from(2000, 1500);
  f.serve(a);
  f.serve(b);
  EXPECT_GE(f.serve(a), 1490U);
  EXPECT_GE(f.serve(b), 1490U);
  EXPECT_GE(f.serve(a), 1490U);
  std::vector<TokenList> talks{tokens_from(10000, 700), tokens_from(20000, 700),
                               tokens_from(30000, 700)};
  for (int turn = 0; turn < 4; ++turn)
    for (TokenList& talk : talks) {  // round robin of three
      const auto known = static_cast<std::uint32_t>(turn == 0 ? 0 : talk.size());
      talk = turn == 0 ? talk : joined(talk, tokens_from(40000 + 100 * turn, 20));
      EXPECT_EQ(f.serve(talk), known);
    }
}

TEST(LedgerReuse, EqualPromptsComputedAtTheSameTimeEndAsOneCachedCopy) {
  LedgerFixture f(pool_of(32));
  const TokenList prompt = tokens_from(0, 40);
  for (std::uint64_t id : {1U, 2U, 3U}) ASSERT_TRUE(f.admit(id, prompt, 10));
  for (std::uint64_t id : {1U, 2U, 3U}) f.prefill(id, prompt);
  const BlockTable before = f.ledger->table(SequenceId{2});
  EXPECT_EQ(f.ledger->totals().duplicate_blocks, 4U);  // two whole blocks, twice
  EXPECT_EQ(f.ledger->counts().pinned, 9U);
  f.release(1);  // the publisher goes first; the others keep standing on its blocks
  EXPECT_EQ(f.ledger->verify(), "");
  f.step(2, tokens_from(500, 10));  // fills block 3, published behind the shared beginning
  EXPECT_EQ(f.ledger->table(SequenceId{2})[0], before[0]);  // tables only grow
  f.release(2);
  f.release(3);
  EXPECT_EQ(f.ledger->verify(), "");
  EXPECT_EQ(f.ledger->counts().pinned, 0U);
  EXPECT_EQ(f.ledger->counts().evictable, 4U);  // 2 shared + the tail of 1 and 3 + block of 2
  EXPECT_EQ(f.found(joined(joined(prompt, tokens_from(500, 10)), tokens_from(1, 5))), 50U);
}

TEST(LedgerReuse, ATwinOfAnUnusedCopyTakesItsPlaceAndFreesIt) {
  LedgerFixture f(pool_of(8));
  const TokenList prompt = tokens_from(0, 16);
  ASSERT_TRUE(f.admit(1, prompt));
  ASSERT_TRUE(f.admit(2, prompt));
  f.prefill(1, prompt);
  f.release(1);
  const std::uint32_t free_before = f.ledger->counts().free;
  ASSERT_EQ(f.ledger->counts().evictable, 1U);
  f.prefill(2, prompt);  // takes one, and frees the old copy
  EXPECT_EQ(f.ledger->counts().free, free_before);
  EXPECT_EQ(f.ledger->counts().evictable, 0U);
  EXPECT_EQ(f.ledger->counts().pinned, 1U);
  EXPECT_EQ(f.ledger->verify(), "");
}

TEST(LedgerReuse, SwitchedOffNothingIsFoundAndNothingIsKept) {
  LedgerFixture f(LedgerOptions{.block_count = 16, .prefix_cache = false});
  EXPECT_EQ(f.serve(tokens_from(0, 40)), 0U);
  EXPECT_EQ(f.serve(tokens_from(0, 40)), 0U);
  EXPECT_EQ(f.reason(tokens_from(0, 40)), MissReason::kDisabled);
  EXPECT_EQ(f.ledger->counts().free, 16U);
  EXPECT_EQ(f.ledger->totals().published_blocks, 0U);
}

TEST(LedgerReuse, TotalsAddUpToTheTokensOfAllPrompts) {  // O-43 at ledger level
  LedgerFixture f(pool_of(64));
  std::uint64_t prompts = 0;
  std::uint64_t hits = 0;
  for (std::size_t length : {10U, 40U, 40U, 90U, 33U, 64U}) {
    prompts += length;
    hits += f.serve(tokens_from(0, length));
  }
  EXPECT_EQ(f.ledger->totals().queried_tokens, prompts);
  EXPECT_EQ(f.ledger->totals().hit_tokens, hits);
  EXPECT_EQ(hits, 10U + 39U + 40U + 32U + 63U);
}

}  // namespace
}  // namespace refrain::kv
