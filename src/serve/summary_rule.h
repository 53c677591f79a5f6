// SummaryRule: when the older turns of a conversation are replaced by a summary. Plain data.
#pragma once

#include <cstdint>

namespace refrain::serve {

struct SummaryRule {
  bool on = false;
  std::uint32_t budget_tokens =
      0;                           // a longer prompt is shortened for the next turn; 0 = any length
  std::uint32_t recent_turns = 2;  // stay as they are, beside the running one
  std::uint32_t split_turns = 0;   // after so many turns all of them are replaced; 0 = never
};

}  // namespace refrain::serve
