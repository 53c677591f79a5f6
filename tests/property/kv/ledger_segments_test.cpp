// Random lists of ledger operations where requests accept moved text and approximate state, over an
// arena that is played (tests/support/segment_driver.h): tiny pools, two spaces, both policies,
// heads evicted before tails. After each operation every invariant is verified (A3, A4, A10).
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "support/segment_driver.h"

namespace refrain::test {
namespace {

rc::Gen<SegmentOperation> any_operation() {
  using Action = SegmentAction;
  const auto byte = rc::gen::resize(100, rc::gen::arbitrary<std::uint8_t>());
  // Prompts that go on with earlier ones, and others.
  const auto texts = rc::gen::oneOf(byte, rc::gen::inRange<std::uint8_t>(128, 255));
  const auto action = rc::gen::weightedElement<Action>({{16, Action::kServe},
                                                        {6, Action::kAdmit},
                                                        {3, Action::kAdmitExact},
                                                        {4, Action::kAppend},
                                                        {6, Action::kAppendPrompt},
                                                        {8, Action::kCommit},
                                                        {2, Action::kRollback},
                                                        {1, Action::kForgo},
                                                        {3, Action::kEstimate},
                                                        {5, Action::kRelease},
                                                        {1, Action::kDropSpace}});
  return rc::gen::build<SegmentOperation>(
      rc::gen::set(&SegmentOperation::action, action), rc::gen::set(&SegmentOperation::which, byte),
      rc::gen::set(&SegmentOperation::texts, texts), rc::gen::set(&SegmentOperation::begin, byte),
      rc::gen::set(&SegmentOperation::length, byte));
}

struct Reused {
  std::uint64_t moved = 0, approximate = 0;
};

Reused run_operations(std::uint32_t least_blocks, std::uint32_t most_blocks) {
  kv::LedgerOptions options;
  options.block_count = *rc::gen::inRange(least_blocks, most_blocks + 1);
  options.max_cached_blocks = *rc::gen::element(0U, 0U, 4U, 12U);
  options.policy = *rc::gen::element(kv::EvictionPolicy::kLru, kv::EvictionPolicy::kLfu,
                                     kv::EvictionPolicy::kGdsf);
  SegmentDriver driver(options);
  const auto operations =
      *rc::gen::resize(150, rc::gen::container<std::vector<SegmentOperation>>(any_operation()));
  for (const SegmentOperation& operation : operations) {
    const std::string broken = driver.apply(operation);
    if (!broken.empty()) RC_FAIL(broken);
  }
  const std::string broken = driver.finish();
  if (!broken.empty()) RC_FAIL(broken);
  return {driver.moved_tokens(), driver.approximate_tokens()};
}

TEST(LedgerSegmentsProperty, NothingApproximatePassesForExactUnderPressure) {
  EXPECT_TRUE(rc::check([] { run_operations(8, 40); }));
}

TEST(LedgerSegmentsProperty, NothingApproximatePassesForExactInALargePool) {
  Reused reused;
  EXPECT_TRUE(rc::check([&] {
    const Reused one = run_operations(40, 120);
    reused.moved += one.moved;
    reused.approximate += one.approximate;
  }));
  // The lists above do move text, about 11,000 tokens, and go on behind it, with about 4,000.
  EXPECT_GT(reused.moved, 1000U);
  EXPECT_GT(reused.approximate, 200U);
}

}  // namespace
}  // namespace refrain::test
