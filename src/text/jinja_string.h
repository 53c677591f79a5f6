// The string operations behind methods and filters, as Python's str has them; all keep origins.
// Pure functions; any thread. Costs are linear in the sizes of their arguments and result.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/jinja_text.h"

namespace refrain::text::jinja {

enum class Side { kBoth, kLeft, kRight };

// Cuts white space (chars == nullptr) or the characters of `chars` from the ends.
Text strip(const Text& text, Side side, const std::string_view* chars = nullptr);
// At most `limit` cuts (< 0: no limit), counted from `side` (kLeft or kRight); without separator at
// runs of white space, empty pieces dropped. The separator must not be empty.
std::vector<Text> split(const Text& text, const std::string_view* separator, std::int64_t limit,
                        Side side = Side::kLeft);
std::vector<Text> split_lines(const Text& text, bool keep_ends = false);
// First `limit` occurrences (< 0: all). An empty `old` matches around each character. The result
// is cut short once it is longer than `max_bytes`.
Text replace(const Text& text, std::string_view old, const Text& with, std::int64_t limit,
             std::size_t max_bytes);
Text change_case(const Text& text, LetterCase letter_case);
Text title(const Text& text);        // str.title()
Text title_words(const Text& text);  // the filter: words begin after space and ( { [ < -
Text capitalize(const Text& text);

}  // namespace refrain::text::jinja
