// Ledger: reservations, eviction, caps, and that nothing leaks (A1, A10; cases O-15, O-16).
#include <gtest/gtest.h>

#include <set>

#include "base/rng.h"
#include "support/ledger_fixture.h"

namespace refrain::kv {
namespace {

using test::joined;
using test::LedgerFixture;
using test::tokens_from;

LedgerOptions pool_of(std::uint32_t blocks) {
  return LedgerOptions{.block_count = blocks};
}

TEST(LedgerMemory, OptionsThatCannotWorkAreRefusedByName) {
  EXPECT_EQ(Ledger::create({.block_size = 24, .block_count = 4}).error().field, "block_size");
  EXPECT_EQ(Ledger::create({.block_size = 0, .block_count = 4}).error().field, "block_size");
  for (const std::uint32_t step : {0U, 3U, 32U}) {
    EXPECT_EQ(Ledger::create({.block_count = 4, .reuse_step_tokens = step}).error().field,
              "reuse_step_tokens");
  }
  EXPECT_EQ(Ledger::create({.block_count = 0}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(Ledger::create({.block_count = 0xFFFFFFFF}).error().field, "kv_budget");
}

TEST(LedgerMemory, BlocksAreTakenAsTokensComeSharedByCountAndLetGoWithTheLastHolder) {  // A1
  LedgerFixture f(pool_of(16));
  const auto pinned = [&] { return f.ledger->counts().pinned; };
  ASSERT_TRUE(f.admit(1, tokens_from(0, 40), 40));
  EXPECT_EQ(f.ledger->counts().reserved, 5U);  // promised, none taken
  EXPECT_EQ(pinned(), 0U);
  f.prefill(1, tokens_from(0, 40));
  EXPECT_EQ(pinned(), 3U);
  for (int i = 0; i < 8; ++i) f.step(1, {TokenId{1000 + i}});
  EXPECT_EQ(pinned(), 3U);
  f.step(1, {TokenId{1008}});
  EXPECT_EQ(pinned(), 4U);
  // The same two blocks, read by both; only what differs is taken anew.
  const TokenList other = joined(tokens_from(0, 32), tokens_from(900, 8));
  ASSERT_TRUE(f.admit(2, other));
  f.prefill(2, other);
  const BlockTable first = f.ledger->table(SequenceId{1});
  const BlockTable second = f.ledger->table(SequenceId{2});
  EXPECT_TRUE(first[0] == second[0] && first[1] == second[1] && first[2] != second[2]);
  EXPECT_EQ(pinned(), 5U);
  f.release(1);
  EXPECT_EQ(pinned(), 3U);
  f.release(2);
  EXPECT_EQ(pinned(), 0U);
  EXPECT_EQ(f.ledger->verify(), "");
}

TEST(LedgerMemory, AdmissionTakesNothingWhenItCannotHaveAll) {
  LedgerFixture f(pool_of(4));
  ASSERT_TRUE(f.admit(1, tokens_from(0, 20), 20));  // 3 of 4 blocks
  const auto refused = f.admit(2, tokens_from(100, 10), 10);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_EQ(f.ledger->counts().reserved, 3U);
  EXPECT_EQ(f.ledger->counts().sequences, 1U);
  EXPECT_TRUE(f.admit(2, tokens_from(100, 10), 6).ok());
  EXPECT_EQ(f.ledger->verify(), "");
}

TEST(LedgerMemory, MoreThanTheWholePoolIsRefusedForGoodWithBothNumbers) {  // O-15
  LedgerFixture f(pool_of(4));
  f.serve(tokens_from(0, 64));
  const auto refused = f.admit(1, tokens_from(900, 60), 5);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kContextLength);
  EXPECT_NE(refused.error().message.find("65 tokens needs 5 KV blocks"), std::string::npos);
  EXPECT_NE(refused.error().message.find("has 4"), std::string::npos);
  EXPECT_EQ(f.ledger->counts().evictable, 4U) << "what was cached stays";
}

TEST(LedgerMemory, AnEmptyPromptOrTooLittleRoomForItIsRefused) {
  LedgerFixture f(pool_of(4));
  EXPECT_EQ(f.admit(1, {}, 5).error().code, Code::kInvalidArgument);
  const ReusePlan plan = f.ledger->plan(test::space_of("a"), tokens_from(0, 20));
  EXPECT_FALSE(f.ledger->can_admit(plan, 19));
  EXPECT_EQ(f.ledger->admit(SequenceId{1}, plan, 19, 1).error().code, Code::kInvalidArgument);
  EXPECT_EQ(f.ledger->counts().sequences, 0U);
}

TEST(LedgerMemory, AnAdmittedSequenceAlwaysGetsItsBlocksWhateverElseIsCached) {  // A10
  LedgerFixture f(pool_of(8));
  f.serve(tokens_from(0, 128));  // the cache fills the pool
  EXPECT_EQ(f.ledger->counts().free, 0U);
  ASSERT_TRUE(f.admit(1, tokens_from(500, 1), 127));
  EXPECT_FALSE(f.admit(2, tokens_from(900, 1)).ok()) << "all is promised to the first";
  f.prefill(1, tokens_from(500, 1));
  for (int i = 0; i < 127; ++i) {
    f.step(1, {TokenId{1000 + i}});
    ASSERT_EQ(f.ledger->verify(), "");
  }
  EXPECT_EQ(f.ledger->counts().pinned, 8U);
  EXPECT_EQ(f.ledger->totals().evicted_blocks, 8U);
}

TEST(LedgerMemory, CachedBlocksThatThePlanItselfUsesAreNotCountedAsRoom) {
  LedgerFixture f(pool_of(4));
  f.serve(tokens_from(0, 33));  // three blocks cached, one free
  // Two shared + two new fit; with the cached two counted as room, so would three new ones.
  const TokenList prompt = joined(tokens_from(0, 32), tokens_from(900, 16));
  ASSERT_TRUE(f.admit(1, prompt, 16));
  EXPECT_EQ(f.ledger->verify(), "");
  f.prefill(1, prompt);
  f.step(1, tokens_from(1000, 16));
  EXPECT_EQ(f.ledger->table(SequenceId{1}).size(), 4U);
  EXPECT_EQ(f.ledger->verify(), "");
}

TEST(LedgerMemory, APartialHitIsGivenUpWhereItsSourceWouldLeaveNoRoom) {  // A10
  LedgerFixture f(pool_of(2));
  f.serve(tokens_from(0, 30));
  // Needs both blocks: one shared, one own; the block it could copy 9 tokens from must go.
  const TokenList prompt = joined(tokens_from(0, 25), tokens_from(900, 3));
  EXPECT_EQ(f.found(prompt), 25U);
  EXPECT_EQ(f.admit(1, prompt)->cached_tokens, 16U);
  f.prefill(1, prompt);
  EXPECT_EQ(f.ledger->verify(), "");
}

TEST(LedgerMemory, AChainIsEvictedFromItsTailToItsHead) {
  for (EvictionPolicy policy :
       {EvictionPolicy::kLru, EvictionPolicy::kLfu, EvictionPolicy::kGdsf}) {
    LedgerFixture f(LedgerOptions{.block_count = 6, .policy = policy});
    f.serve(tokens_from(0, 96));
    std::uint32_t left = 95;
    for (int i = 0; i < 5; ++i) {
      const std::uint64_t id = static_cast<std::uint64_t>(i) + 1;
      ASSERT_TRUE(f.admit(id, tokens_from(1000 + 100 * i, 16)));
      f.prefill(id, tokens_from(1000 + 100 * i, 16));
      left = 80 - 16 * static_cast<std::uint32_t>(i);
      EXPECT_EQ(f.found(tokens_from(0, 96)), left);
      EXPECT_EQ(f.ledger->verify(), "");
    }
  }
}

TEST(LedgerMemory, LruKeepsWhatWasUsedLast) {
  LedgerFixture f(pool_of(4));
  f.serve(tokens_from(0, 16));
  f.serve(tokens_from(100, 16));
  f.serve(tokens_from(200, 16));
  f.serve(joined(tokens_from(0, 16), {TokenId{999}}));  // uses the oldest again
  f.serve(tokens_from(300, 32));                        // needs two blocks
  EXPECT_EQ(f.found(tokens_from(0, 17)), 16U);
  EXPECT_EQ(f.found(tokens_from(100, 17)), 0U);
}

TEST(LedgerMemory, LfuKeepsWhatWasUsedMostHoweverLongAgo) {
  LedgerFixture f(LedgerOptions{.block_count = 4, .policy = EvictionPolicy::kLfu});
  for (int i = 0; i < 5; ++i) f.serve(tokens_from(0, 18));  // 2 blocks, often
  for (int i = 1; i < 20; ++i) f.serve(tokens_from(100 * i, 17));
  EXPECT_EQ(f.found(tokens_from(0, 19)), 18U);
}

TEST(LedgerMemory, ContentComputedTwiceAtOnceCountsAsUsedTwice) {
  LedgerFixture f(LedgerOptions{.block_count = 4, .policy = EvictionPolicy::kLfu});
  ASSERT_TRUE(f.admit(1, tokens_from(0, 16)));
  ASSERT_TRUE(f.admit(2, tokens_from(0, 16)));
  f.prefill(1, tokens_from(0, 16));
  f.prefill(2, tokens_from(0, 16));
  f.release(1);
  f.release(2);
  f.serve(tokens_from(100, 16));
  f.serve(tokens_from(200, 16));
  f.serve(tokens_from(300, 48));  // three blocks: only one of the others can stay
  EXPECT_EQ(f.found(tokens_from(0, 17)), 16U);
}

TEST(LedgerMemory, TheCapHoldsForCachedBlocksButNotForRunningOnes) {  // A8 max_blocks
  LedgerFixture f(LedgerOptions{.block_count = 32, .max_cached_blocks = 4});
  ASSERT_TRUE(f.admit(1, tokens_from(0, 160)));
  f.prefill(1, tokens_from(0, 160));
  EXPECT_EQ(f.ledger->counts().pinned, 10U);
  f.release(1);
  EXPECT_EQ(f.ledger->counts().evictable, 4U);
  EXPECT_EQ(f.found(tokens_from(0, 160)), 64U) << "the head of a long text is what can be reused";
  EXPECT_EQ(f.ledger->verify(), "");
}

TEST(LedgerMemory, ManyOneShotPromptsNeverTakeMoreThanTheBudget) {  // O-15
  LedgerFixture f(pool_of(128));
  for (int i = 0; i < 200; ++i) {
    f.serve(tokens_from(2000 * i, 1000));
    const LedgerCounts counts = f.ledger->counts();
    ASSERT_EQ(counts.free + counts.evictable, 128U);
    ASSERT_EQ(counts.pinned, 0U);
  }
  EXPECT_EQ(f.ledger->verify(), "");
  EXPECT_EQ(f.found(tokens_from(2000 * 199, 1000)), 999U);
}

TEST(LedgerMemory, SequencesCutAtAnyPointLeaveNothingBehind) {  // O-16
  LedgerFixture f(pool_of(64));
  Rng rng(16);
  for (std::uint64_t id = 1; id <= 600; ++id) {
    // One or two choices of one prompt, dropped while queued, in prefill, or while generating.
    const TokenList prompt = tokens_from(static_cast<int>(rng.below(8)) * 1000, 40 + rng.below(80));
    const std::uint64_t choices = 1 + rng.below(2);
    for (std::uint64_t choice = 0; choice < choices; ++choice) {
      const std::uint64_t own = 2 * id + choice;
      if (!f.admit(own, prompt, 100).ok()) continue;
      const std::uint64_t fate = rng.below(4);
      if (fate >= 1)
        f.ledger->append(SequenceId{own},
                         std::span(prompt).subspan(f.ledger->length(SequenceId{own}), 1), ++f.now);
      if (fate >= 2) f.ledger->commit(SequenceId{own});
      if (fate >= 3) f.step(own, tokens_from(777, 1 + rng.below(50)));
    }
    for (std::uint64_t choice = 0; choice < choices; ++choice)
      if (f.ledger->counts().sequences > 0) f.release(2 * id + choice);
    ASSERT_EQ(f.ledger->verify(), "");
    const LedgerCounts counts = f.ledger->counts();
    ASSERT_EQ(counts.free + counts.evictable, 64U);
    ASSERT_EQ(counts.reserved + counts.pinned + counts.sequences, 0U);
  }
  f.serve(tokens_from(0, 60));
  EXPECT_EQ(f.serve(tokens_from(0, 60)), 59U) << "the next request hits normally";
}

TEST(LedgerMemory, RollbackForgetsAStepAndKeepsItsRoom) {
  LedgerFixture f(pool_of(8));
  ASSERT_TRUE(f.admit(1, tokens_from(0, 20), 60));
  f.prefill(1, tokens_from(0, 20));
  const BlockTable before = f.ledger->table(SequenceId{1});
  const LedgerCounts counts = f.ledger->counts();
  f.ledger->append(SequenceId{1}, tokens_from(500, 50), ++f.now);
  f.ledger->rollback(SequenceId{1});
  EXPECT_EQ(f.ledger->length(SequenceId{1}), 20U);
  EXPECT_EQ(f.ledger->table(SequenceId{1}), before);
  EXPECT_EQ(f.ledger->counts().reserved, counts.reserved);
  f.step(1, tokens_from(600, 60));  // the whole room is still there
  f.release(1);
  EXPECT_EQ(f.found(joined(tokens_from(0, 20), tokens_from(600, 61))), 80U);
  EXPECT_EQ(f.found(joined(tokens_from(0, 20), tokens_from(500, 50))), 20U)
      << "what was rolled back was never published";
}

TEST(LedgerMemory, UncommittedTokensAreNotCachedWhenASequenceEnds) {
  LedgerFixture f(pool_of(8));
  ASSERT_TRUE(f.admit(1, tokens_from(0, 40)));
  f.step(1, tokens_from(0, 10));
  f.ledger->append(SequenceId{1}, tokens_from(10, 30), ++f.now);
  f.release(1);
  EXPECT_EQ(f.found(tokens_from(0, 40)), 10U);
  EXPECT_EQ(f.ledger->counts().evictable, 1U);
}

TEST(LedgerMemory, DroppingASpaceKeepsOthersAndWhatIsRunning) {
  LedgerFixture f(pool_of(32));
  f.serve(tokens_from(0, 40), {}, "a");
  f.serve(tokens_from(0, 40), {}, "b");
  ASSERT_TRUE(f.admit(1, tokens_from(0, 20), 0, "a"));  // pins the first block of a
  EXPECT_EQ(f.ledger->drop(test::space_of("a")), 1U) << "the source of a copy is pinned, too";
  EXPECT_EQ(f.found(tokens_from(0, 40), "b"), 39U);
  EXPECT_EQ(f.found(tokens_from(0, 40), "a"), 32U);
  EXPECT_EQ(f.ledger->drop_all(), 3U);
  EXPECT_EQ(f.ledger->verify(), "");
  f.release(1);
  EXPECT_EQ(f.ledger->drop_all(), 2U);
  EXPECT_EQ(f.ledger->counts().free, 32U);
}

TEST(LedgerMemory, AVeryLongChainIsPublishedEvictedAndDroppedWithoutRecursion) {
  LedgerFixture f(pool_of(70'000));
  const TokenList text = tokens_from(0, 16 * 60'000);
  f.serve(text);
  EXPECT_EQ(f.found(text), 16U * 60'000U - 1U);
  EXPECT_EQ(f.ledger->verify(), "");
  EXPECT_EQ(f.ledger->drop_all(), 60'000U);
}

TEST(LedgerMemoryDeath, BugsOfTheCallerAreCaughtAtOnce) {
  LedgerFixture f(pool_of(8));
  ASSERT_TRUE(f.admit(1, tokens_from(0, 20), 5));
  EXPECT_DEATH(f.ledger->append(SequenceId{1}, tokens_from(0, 26), 1), "beyond what was reserved");
  EXPECT_DEATH(f.release(77), "no sequence 77");
  EXPECT_DEATH({ auto again = f.admit(1, tokens_from(0, 20)); }, "already running");
  f.prefill(1, tokens_from(0, 20));
  f.release(1);
  const ReusePlan plan = f.ledger->plan(test::space_of("a"), tokens_from(0, 20));
  f.ledger->drop_all();
  EXPECT_DEATH({ auto late = f.ledger->admit(SequenceId{2}, plan, 20, 1); }, "has changed since");
}

}  // namespace
}  // namespace refrain::kv
