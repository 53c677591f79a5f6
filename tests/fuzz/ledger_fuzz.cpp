// module: kv
// Operation lists for the ledger from bytes, checked against the naive model after each operation.
// Byte 0: pool size and policy; byte 1: cap on cached blocks and the cache switch; then six bytes
// per operation.
#include <cstddef>
#include <cstdint>

#include "../support/ledger_driver.h"
#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using refrain::test::LedgerAction;
  using refrain::test::LedgerOperation;
  if (size < 2) return 0;
  refrain::kv::LedgerOptions options;
  options.block_count = 1 + data[0] % 48;
  options.policy = data[0] >= 192   ? refrain::kv::EvictionPolicy::kGdsf
                   : data[0] >= 128 ? refrain::kv::EvictionPolicy::kLfu
                                    : refrain::kv::EvictionPolicy::kLru;
  options.max_cached_blocks = data[1] % 16;
  options.prefix_cache = data[1] < 240;
  refrain::test::LedgerDriver driver(options);
  constexpr std::size_t kMaxBytes = 6 * 400;  // longer lists only slow the search down
  for (std::size_t at = 2; at + 6 <= size && at < kMaxBytes; at += 6) {
    const LedgerOperation operation{
        static_cast<LedgerAction>(data[at] % static_cast<std::uint8_t>(LedgerAction::kCount)),
        data[at + 1],
        data[at + 2],
        data[at + 3],
        data[at + 4],
        data[at + 5]};
    const std::string broken = driver.apply(operation);
    CHECK(broken.empty(), broken);
  }
  const std::string broken = driver.finish();
  CHECK(broken.empty(), broken);
  return 0;
}
