// The user's own prompts for `refrain eval kv`: a text file with a prompt a line, or JSON lines
// with "prompt" (continued as it is) or "messages" (through the chat template). Any thread.
//
//   {"prompt": "The harbour was"}
//   {"messages": [{"role": "user", "content": "Where is the harbour?"}]}
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/runtime.h"

namespace refrain::cli {

// One prompt a line, as tokens; blank lines are skipped. kInvalidArgument names the line.
Result<std::vector<TokenList>> read_kv_prompts(std::string_view text, const LoadedModel& loaded);

}  // namespace refrain::cli
