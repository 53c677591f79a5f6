// Cases of `refrain eval reuse`: requests that came before, and one that can reuse what they left
// in other places. Read from JSON lines, or generated: documents about invented places, made from
// sentence patterns and a seed. Plain values; any thread.
//
//   {"system": "...", "documents": ["...", ...], "warm_orders": [[2, 0, 1]], "question": "..."}
//   {"messages": [{"role": "...", "content": "..."}, ...], "edited_messages": [...]}
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/chat_template.h"

namespace refrain::cli {

enum class ReuseKind : std::uint8_t {
  kRecombined,  // the same documents in another order
  kEdited,      // a part of the context replaced, what follows moved
};
std::string_view name_of(ReuseKind kind);  // "recombined", "edited"

using Messages = std::vector<text::ChatMessage>;

struct ReuseCase {
  ReuseKind kind = ReuseKind::kRecombined;
  std::vector<Messages> warm;
  Messages target;
};

struct RecombinedSource {
  std::string system;
  std::vector<std::string> documents;
  std::vector<std::vector<std::size_t>> warm_orders;  // indices of documents
  std::string question;
};
// The documents and then the question are one user message; the target has them in their order,
// earlier requests asked something else about them.
ReuseCase recombined_case(const RecombinedSource& source);

// One case a line; blank lines are skipped. kInvalidArgument names the line.
Result<std::vector<ReuseCase>> parse_reuse_cases(std::string_view text);

// `count` cases of each kind; about 3,000 tokens each.
std::vector<ReuseCase> generate_reuse_cases(std::uint64_t seed, std::size_t count);

}  // namespace refrain::cli
