// module: kv
// Operation lists from bytes for a ledger whose requests accept moved text, checked after each
// operation. Byte 0: pool size and policy; byte 1: cap on cached blocks; then five bytes per
// operation.
#include <cstddef>
#include <cstdint>

#include "../support/segment_driver.h"
#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using refrain::test::SegmentAction;
  using refrain::test::SegmentOperation;
  if (size < 2) return 0;
  refrain::kv::LedgerOptions options;
  options.block_count = 8 + data[0] % 64;
  options.policy = data[0] >= 192   ? refrain::kv::EvictionPolicy::kGdsf
                   : data[0] >= 128 ? refrain::kv::EvictionPolicy::kLfu
                                    : refrain::kv::EvictionPolicy::kLru;
  options.max_cached_blocks = data[1] % 32;
  refrain::test::SegmentDriver driver(options);
  constexpr std::size_t kMaxBytes = 5 * 300;  // longer lists only slow the search down
  for (std::size_t at = 2; at + 5 <= size && at < kMaxBytes; at += 5) {
    const SegmentOperation operation{
        static_cast<SegmentAction>(data[at] % static_cast<std::uint8_t>(SegmentAction::kCount)),
        data[at + 1], data[at + 2], data[at + 3], data[at + 4]};
    const std::string broken = driver.apply(operation);
    CHECK(broken.empty(), broken);
  }
  const std::string broken = driver.finish();
  CHECK(broken.empty(), broken);
  return 0;
}
