// SummaryReport: what an answer tells of how its conversation was shortened. Plain data; any
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace refrain::serve {

enum class NextSummary : std::uint8_t {
  kNone,       // nothing is due
  kDue,        // it is made beside this answer, if there is room for it
  kBeingMade,  // since an earlier one
  kNothing,    // due, but too little is neither recent nor replaced
};
std::string_view next_summary_text(NextSummary next);

// What an answer tells of it.
struct SummaryReport {
  std::uint32_t replaced_turns = 0;
  std::uint32_t replaced_tokens = 0;
  std::uint32_t summary_tokens = 0;
  std::uint32_t section = 1;         // of the session: one more with every summary
  std::uint32_t left_out_turns = 0;  // neither summarised yet nor room for them
  NextSummary next = NextSummary::kNone;
  std::string text = {};  // the summary
};

}  // namespace refrain::serve
