// Normalizer: one canonical form for texts that differ only in how they were typed, so that they
// have the same tokens and find the same context (`--normalize-input`, A7). It rewrites the text
// *before* it is tokenized; the answer is that of the rewritten text. Plain functions, any thread;
// linear.
//
//   line breaks       CRLF and CR become LF
//   blanks            repeated ones become one space, those at the end of a line go; blanks are
//   space,
//                     tab, no-break space and ideographic space
//   empty lines       several become one; at the beginning and the end of the text they go, and so
//   do
//                     the indentation of its first line and its last line break
//   width             full-width ASCII forms become ASCII, half-width katakana full-width
//
// Left as they are: lines inside a fence (``` or ~~~), lines indented by four columns or a tab, and
// quoted lines (>); within a line what stands in double quotes of any kind or in backticks;
// indentation. Four full-width signs and the half-width corner brackets stay, too, as they would
// become marks of these: ＂ ＞ ｀ ～ ｢ ｣. So normalizing twice changes nothing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/chat_template.h"

namespace refrain::text {

std::string normalize(std::string_view text);

// Rewrites what users wrote. What a template writes, the assistant answered or a tool returned
// stays as it is: replayed answers must meet their own tokens. True if something changed.
bool normalize_user_messages(std::vector<ChatMessage>& messages);

}  // namespace refrain::text
