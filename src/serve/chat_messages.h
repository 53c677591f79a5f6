// Messages of a chat request in OpenAI's shapes -> text::ChatMessage: content as a string or in
// parts, calls of the assistant, results of tools. What a text model cannot take is refused by
// name, never blanked. Plain functions, any thread.
#pragma once

#include <vector>

#include "serve/field_reader.h"
#include "text/chat_template.h"

namespace refrain::serve {

inline constexpr std::size_t kMaxMessages = 4096;

// Reads `messages` of the body; faults go to `read`.
std::vector<text::ChatMessage> read_messages(FieldReader& read);

}  // namespace refrain::serve
