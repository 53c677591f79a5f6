// Who is admitted next: round-robin over tenants, order inside one, bounded passing, and a long
// class that holds up nobody else (B6).
#include "engine/waiting_queue.h"

#include <gtest/gtest.h>

#include <deque>
#include <set>

namespace refrain::engine {
namespace {

using Verdict = WaitingQueue::Verdict;

class WaitingQueueTest : public testing::Test {
 protected:
  Sequence& make(std::uint32_t id) {
    request_.prompt = {TokenId{1}};
    sequences_.emplace_back(static_cast<SequenceId>(id), 0U, 0U, request_);
    return sequences_.back();
  }
  // Ids in the order in which they are admitted; ids in `stuck` do not fit.
  std::vector<std::uint64_t> admit(const std::set<std::uint64_t>& stuck = {},
                                   std::size_t at_most = 1000) {
    std::vector<std::uint64_t> order;
    queue_.admit([&](Sequence& sequence) {
      if (order.size() >= at_most) return Verdict::kFull;
      const std::uint64_t id = to_int(sequence.id());
      ++tries_;
      if (stuck.contains(id)) return Verdict::kNotNow;
      order.push_back(id);
      return Verdict::kAdmitted;
    });
    return order;
  }

  GenerateRequest request_;
  std::deque<Sequence> sequences_;
  WaitingQueue queue_;
  int tries_ = 0;
};

TEST_F(WaitingQueueTest, TenantsTakeTurnsAndKeepTheirOrder) {
  for (const std::uint32_t id : {1U, 2U, 3U}) queue_.push_back("a", make(id));
  queue_.push_back("b", make(10));
  for (const std::uint32_t id : {20U, 21U}) queue_.push_back("c", make(id));
  EXPECT_EQ(admit(), (std::vector<std::uint64_t>{1, 10, 20, 2, 21, 3}));
  EXPECT_TRUE(queue_.empty());
}

TEST_F(WaitingQueueTest, TheNextRoundBeginsBehindTheTenantAdmittedLast) {
  for (const std::uint32_t id : {1U, 2U}) queue_.push_back("a", make(id));
  for (const std::uint32_t id : {10U, 11U}) queue_.push_back("b", make(id));
  EXPECT_EQ(admit({}, 1), (std::vector<std::uint64_t>{1}));
  EXPECT_EQ(admit({}, 1), (std::vector<std::uint64_t>{10}));
  EXPECT_EQ(admit({}, 1), (std::vector<std::uint64_t>{2}));
}

TEST_F(WaitingQueueTest, SmallOnesPassABigOneABoundedNumberOfTimes) {
  queue_.push_back("a", make(1));
  for (std::uint32_t id = 2; id < 40; ++id) queue_.push_back("a", make(id));
  EXPECT_EQ(admit({1}).size(), WaitingQueue::kMaxPasses);
  EXPECT_TRUE(admit({1}).empty()) << "nothing passes it any more";
  const std::vector<std::uint64_t> rest = admit();
  EXPECT_EQ(rest.front(), 1U);
  EXPECT_EQ(rest.size(), 39U - WaitingQueue::kMaxPasses);
}

TEST_F(WaitingQueueTest, AnOverdueOneIsNotPassedByOtherTenantsEither) {
  queue_.push_back("b", make(1));
  for (std::uint32_t id = 2; id < 30; ++id) queue_.push_back("a", make(id));
  // Tenant a begins: its first one comes before b's is tried and passes nobody.
  EXPECT_EQ(admit({1}).size(), 1 + WaitingQueue::kMaxPasses);
  EXPECT_TRUE(admit({1}).empty());
}

TEST_F(WaitingQueueTest, ARoundStopsAfterAFewRefusals) {
  std::set<std::uint64_t> stuck;
  for (std::uint32_t id = 1; id < 100; ++id) {
    queue_.push_back("a", make(id));
    stuck.insert(id);
  }
  EXPECT_TRUE(admit(stuck).empty());
  EXPECT_EQ(tries_, static_cast<int>(WaitingQueue::kMaxRefusals));
}

TEST_F(WaitingQueueTest, FurtherChoicesGoInFrontAndRemovedOnesAreGone) {
  queue_.push_back("a", make(1));
  queue_.push_front("a", make(2));
  Sequence& gone = make(3);
  queue_.push_back("a", gone);
  queue_.remove("a", gone);
  queue_.remove("a", gone);
  queue_.remove("nobody", gone);
  EXPECT_EQ(admit(), (std::vector<std::uint64_t>{2, 1}));
}

TEST_F(WaitingQueueTest, LongOnesThatWaitForTheirClassHoldUpNobodyElse_B6) {
  const auto make_long = [&](std::uint32_t id) -> Sequence& {
    Sequence& sequence = make(id);
    sequence.is_long = true;
    return sequence;
  };
  queue_.push_back("a", make_long(1));
  queue_.push_back("a", make_long(2));
  queue_.push_back("b", make_long(3));
  for (std::uint32_t id = 10; id < 50; ++id) queue_.push_back("a", make(id));
  std::vector<std::uint64_t> order;
  std::uint32_t long_tries = 0;
  bool room = false;
  const auto try_admit = [&](Sequence& sequence) {
    if (sequence.is_long && ++long_tries > 0 && !room) return Verdict::kClassFull;
    if (sequence.is_long) room = false;  // for one
    order.push_back(to_int(sequence.id()));
    return Verdict::kAdmitted;
  };
  queue_.admit(try_admit);
  EXPECT_EQ(order.size(), 40U) << "all short ones, far more than kMaxPasses";
  EXPECT_EQ(long_tries, 1U) << "no other long one is tried in that round";
  for (const std::uint64_t expected : {3U, 1U, 2U}) {
    order.clear();
    room = true;
    queue_.admit(try_admit);
    EXPECT_EQ(order, std::vector<std::uint64_t>{expected}) << "tenants take turns";
  }
  EXPECT_TRUE(queue_.empty());
}

}  // namespace
}  // namespace refrain::engine
