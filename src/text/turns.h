// Turns: the messages of a request on their way into a template, with the origin of every byte.
// Also writes tools into them for templates that know none (docs/reference/tools.md).
// Plain functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/chat_template.h"
#include "text/jinja_text.h"
#include "text/jinja_value.h"

namespace refrain::text {

struct Turn {
  std::string role;
  jinja::Text content;
  std::int32_t origin = 0;  // index of the message, for all text but `content`
  std::vector<ToolCall> tool_calls;
  std::string tool_call_id;
  std::string name;
  std::string reasoning_content;
};
using Turns = std::vector<Turn>;

// Message i becomes turn i; role "developer" becomes "system".
Turns make_turns(const std::vector<ChatMessage>& messages);

// What the template sees as `messages`. With `as_parts`, content is a list of one text part.
Result<jinja::Value> to_value(const Turns& turns, bool as_parts);

enum class ToolPlace { kSystemTurn, kFirstUserTurn };
// Calls become text of their assistant turn, results user turns, and the definitions (`tools`:
// list or none) text at the place named; a missing system turn is made.
Result<Turns> write_tools(const Turns& turns, const jinja::Value& tools, ToolPlace place);

}  // namespace refrain::text
