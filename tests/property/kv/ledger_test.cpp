// Random lists of ledger operations, run beside a naive model (tests/support/naive_ledger.h):
// admissions with shared beginnings of every length around block borders, several spaces, tiny
// pools, both policies. After each operation every invariant is verified and compared.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "support/ledger_driver.h"

namespace refrain::test {
namespace {

rc::Gen<LedgerOperation> any_operation() {
  using Action = LedgerAction;
  const auto byte = rc::gen::resize(100, rc::gen::arbitrary<std::uint8_t>());
  const auto action = rc::gen::weightedElement<Action>({{6, Action::kAdmit},
                                                        {4, Action::kAppend},
                                                        {6, Action::kAppendPrompt},
                                                        {8, Action::kCommit},
                                                        {2, Action::kRollback},
                                                        {4, Action::kRelease},
                                                        {1, Action::kDropSpace}});
  // Forks and lengths around block borders (16) are the interesting ones.
  const auto near_border = rc::gen::map(
      rc::gen::pair(rc::gen::inRange(0, 6), rc::gen::inRange(-2, 3)), [](const auto& p) {
        return static_cast<std::uint8_t>(std::max(0, p.first * 16 + p.second));
      });
  // ... and equal prompts at the same time.
  const auto size = rc::gen::oneOf(byte, near_border, rc::gen::element<std::uint8_t>(40, 99));
  return rc::gen::build<LedgerOperation>(
      rc::gen::set(&LedgerOperation::action, action), rc::gen::set(&LedgerOperation::which, byte),
      rc::gen::set(&LedgerOperation::family, byte), rc::gen::set(&LedgerOperation::fork_at, size),
      rc::gen::set(&LedgerOperation::length, size), rc::gen::set(&LedgerOperation::extra, byte));
}

void agrees_with_the_model(const kv::LedgerOptions& options, int operation_count) {
  LedgerDriver driver(options);
  const auto operations = *rc::gen::resize(
      operation_count, rc::gen::container<std::vector<LedgerOperation>>(any_operation()));
  for (const LedgerOperation& operation : operations) {
    const std::string broken = driver.apply(operation);
    if (!broken.empty()) RC_FAIL(broken);
  }
  const std::string broken = driver.finish();
  if (!broken.empty()) RC_FAIL(broken);
}

kv::LedgerOptions any_options(std::uint32_t least_blocks, std::uint32_t most_blocks) {
  kv::LedgerOptions options;
  options.block_count = *rc::gen::inRange(least_blocks, most_blocks + 1);
  options.reuse_step_tokens = *rc::gen::element(1U, 1U, 16U);
  options.max_cached_blocks = *rc::gen::element(0U, 0U, 1U, 3U, 8U);
  options.policy = *rc::gen::element(kv::EvictionPolicy::kLru, kv::EvictionPolicy::kLfu,
                                     kv::EvictionPolicy::kGdsf);
  return options;
}

TEST(LedgerProperty, ATinyPoolUnderPressureAgreesWithTheModel) {  // A1, A10
  EXPECT_TRUE(rc::check([] { agrees_with_the_model(any_options(1, 12), 80); }));
}

TEST(LedgerProperty, APoolThatHoldsMostTextsAgreesWithTheModel) {  // A2
  EXPECT_TRUE(rc::check([] { agrees_with_the_model(any_options(20, 60), 120); }));
}

TEST(LedgerProperty, WithoutThePrefixCacheNothingIsEverReused) {
  EXPECT_TRUE(rc::check([] {
    kv::LedgerOptions options = any_options(4, 30);
    options.prefix_cache = false;
    agrees_with_the_model(options, 60);
  }));
}

}  // namespace
}  // namespace refrain::test
