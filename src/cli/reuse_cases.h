// Cases of `refrain eval reuse`: requests that came before, and one that can reuse what they left
// in other places. Read from JSON lines, or generated: documents about invented places, made from
// sentence patterns and a seed. Plain values; any thread.
//
//   {"system": "...", "documents": ["...", ...], "warm_orders": [[2, 0, 1]], "question": "..."}
//   {"messages": [{"role": "...", "content": "..."}, ...], "edited_messages": [...]}
//   {"kind": "changed", "warm": [[{"role": ...}, ...]], "target": [...], "before": [...],
//    "old_value": "...", "new_value": "..."}      and with any other kind, as case_line writes it
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/chat_template.h"

namespace refrain::cli {

enum class ReuseKind : std::uint8_t {
  kRecombined,  // the same documents in another order
  kEdited,      // a part of the context replaced, what follows moved
  kChanged,     // edited: a value that is asked for
  kCopied,      // recombined: a passage that is to be repeated
  kNextTurn,    // recombined, and what was repaired is then asked something else
};
inline constexpr ReuseKind kReuseKinds[] = {ReuseKind::kRecombined, ReuseKind::kEdited,
                                            ReuseKind::kChanged, ReuseKind::kCopied,
                                            ReuseKind::kNextTurn};
// "recombined", "edited", "changed", "copied", "next_turn"
std::string_view name_of(ReuseKind kind);

using Messages = std::vector<text::ChatMessage>;

struct ChangedValue {
  Messages before;  // the target with the old value
  std::string old_value, new_value;
};

struct ReuseCase {
  ReuseKind kind = ReuseKind::kRecombined;
  std::vector<Messages> warm;
  Messages target;
  std::optional<ChangedValue> changed = {};  // of kChanged
  std::string passage = {};                  // of kCopied: begins with what is to be repeated
  Messages first_turn = {};  // of kNextTurn: is repaired; the target goes on behind it
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

// A line that is read as this case.
std::string case_line(const ReuseCase& one);

// `count` cases, recombined and as many edited ones; about 3,000 tokens each.
std::vector<ReuseCase> generate_reuse_cases(std::uint64_t seed, std::size_t count);
// Records and conversations of 600 to 1,300 tokens about a place of which one fact, near the
// beginning, is then another: a status, price, date or name, of as many tokens or not. In half of
// them a later sentence repeats the fact, and is changed as well; in half of them the request that
// came before asked for it, too.
std::vector<ReuseCase> generate_changed_cases(std::uint64_t seed, std::size_t count);
// Three reports in another order, of which one is to be repeated; about 1,500 tokens.
std::vector<ReuseCase> generate_copied_cases(std::uint64_t seed, std::size_t count);
// Recombined cases that are answered, and then asked about two other reports.
std::vector<ReuseCase> generate_next_turn_cases(std::uint64_t seed, std::size_t count);

}  // namespace refrain::cli
