// Turns: building, and writing tools into them. Pure functions, any thread.
#include "text/turns.h"

#include <algorithm>
#include <array>

#include "text/jinja_json.h"

namespace refrain::text {
namespace {

using jinja::Dict;
using jinja::kTemplateOrigin;
using jinja::make_dict;
using jinja::make_list;
using jinja::Text;
using jinja::Value;
using jinja::Values;

constexpr std::size_t kMaxToolText = 32U << 20U;

// A role out of this list counts as the template's own word, since templates build control tokens
// of roles ("<|" + role + "|>"); any other one is the client's text.
std::int32_t role_origin(const std::string& role, std::int32_t origin) {
  static constexpr std::array<std::string_view, 6> kKnown = {"system", "user",      "assistant",
                                                             "tool",   "developer", "function"};
  const bool known = std::find(kKnown.begin(), kKnown.end(), role) != kKnown.end();
  return known ? kTemplateOrigin : origin;
}

void set(Dict& dict, std::string_view key, Value value) {
  dict.set(Value::text(key), std::move(value));
}

// Arguments are a mapping for the template if they are JSON, else the text as it came.
Value arguments_value(const std::string& json, std::int32_t origin) {
  Result<Value> parsed = jinja::parse_json(json, origin);
  return parsed.ok() ? std::move(parsed).value() : Value::text(json, origin);
}

Result<Value> calls_value(const Turn& turn) {
  Values calls;
  for (const ToolCall& call : turn.tool_calls) {
    Dict function;
    set(function, "name", Value::text(call.name, turn.origin));
    set(function, "arguments", arguments_value(call.arguments_json, turn.origin));
    Dict outer;
    if (!call.id.empty()) set(outer, "id", Value::text(call.id, turn.origin));
    set(outer, "type", Value::text("function"));
    ASSIGN_OR_RETURN(Value function_value, make_dict(std::move(function)));
    set(outer, "function", std::move(function_value));
    ASSIGN_OR_RETURN(Value call_value, make_dict(std::move(outer)));
    calls.push_back(std::move(call_value));
  }
  return make_list(std::move(calls));
}

Result<Value> content_value(const Turn& turn, bool as_parts) {
  if (!as_parts) return Value::text(turn.content);
  Dict part;
  set(part, "type", Value::text("text"));
  set(part, "text", Value::text(turn.content));
  ASSIGN_OR_RETURN(Value part_value, make_dict(std::move(part)));
  return make_list({std::move(part_value)});
}

Result<Value> turn_value(const Turn& turn, bool as_parts) {
  Dict dict;
  set(dict, "role", Value::text(turn.role, role_origin(turn.role, turn.origin)));
  ASSIGN_OR_RETURN(Value content, content_value(turn, as_parts));
  set(dict, "content", std::move(content));
  const auto add = [&](std::string_view key, const std::string& text) {
    if (!text.empty()) set(dict, key, Value::text(text, turn.origin));
  };
  add("name", turn.name);
  if (!turn.tool_calls.empty()) {
    ASSIGN_OR_RETURN(Value calls, calls_value(turn));
    set(dict, "tool_calls", std::move(calls));
  }
  add("tool_call_id", turn.tool_call_id);
  add("reasoning_content", turn.reasoning_content);
  return make_dict(std::move(dict));
}

// The instructions and one line of JSON per tool. The JSON is the client's text.
Result<Text> tools_text(const Value& tools) {
  Text out;
  out.append(
      "You have access to functions. Each line between <tools> and </tools> describes one as "
      "JSON.\n"
      "<tools>\n",
      kTemplateOrigin);
  for (const Value& tool : tools.as_list()->items) {
    const Dict* outer = tool.as_dict();
    const Value* function = outer != nullptr ? outer->find("function") : nullptr;
    ASSIGN_OR_RETURN(const Text json,
                     jinja::to_json(function != nullptr ? *function : tool, {}, kMaxToolText));
    out.append(json);
    out.append("\n", kTemplateOrigin);
  }
  out.append(
      "</tools>\n"
      "To use a function, answer with a line of this form:\n"
      "<tool_call>{\"name\": \"FUNCTION\", \"arguments\": {\"PARAMETER\": VALUE}}</tool_call>\n"
      "Write one such line for each call. Results are given to you between <tool_response> and "
      "</tool_response>.",
      kTemplateOrigin);
  return out;
}

Result<void> append_calls(Turn& turn) {
  for (const ToolCall& call : turn.tool_calls) {
    ASSIGN_OR_RETURN(const Text name,
                     jinja::to_json(Value::text(call.name, turn.origin), {}, kMaxToolText));
    if (!turn.content.empty()) turn.content.append("\n", kTemplateOrigin);
    turn.content.append("<tool_call>{\"name\": ", kTemplateOrigin);
    turn.content.append(name);
    turn.content.append(", \"arguments\": ", kTemplateOrigin);
    turn.content.append(call.arguments_json.empty() ? "{}" : call.arguments_json, turn.origin);
    turn.content.append("}</tool_call>", kTemplateOrigin);
  }
  turn.tool_calls.clear();
  return {};
}

bool is_result(const Turn& turn) {
  return turn.role == "tool" || turn.role == "function";
}

// Results in a row share one user turn, since many templates want user and assistant in turn.
void append_result(Turns& out, const Turn& result, bool follows_result) {
  if (!follows_result) {
    Turn turn;
    turn.role = "user";
    turn.origin = result.origin;
    out.push_back(std::move(turn));
  } else {
    out.back().content.append("\n", kTemplateOrigin);
  }
  Text& content = out.back().content;
  content.append("<tool_response>", kTemplateOrigin);
  content.append(result.content);
  content.append("</tool_response>", kTemplateOrigin);
}

void place_text(Turns& turns, const Text& text, ToolPlace place) {
  if (place == ToolPlace::kFirstUserTurn) {
    const auto user = std::find_if(turns.begin(), turns.end(),
                                   [](const Turn& turn) { return turn.role == "user"; });
    if (user != turns.end()) {
      Text content = text;
      content.append("\n\n", kTemplateOrigin);
      content.append(user->content);
      user->content = std::move(content);
      return;
    }
  }
  if (turns.empty() || turns.front().role != "system") {
    Turn system;
    system.role = "system";
    turns.insert(turns.begin(), std::move(system));
  }
  Text& content = turns.front().content;
  if (!content.empty()) content.append("\n\n", kTemplateOrigin);
  content.append(text);
}

}  // namespace

Turns make_turns(const std::vector<ChatMessage>& messages) {
  Turns turns;
  turns.reserve(messages.size());
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    Turn turn;
    turn.role = message.role == "developer" ? "system" : message.role;
    turn.origin = static_cast<std::int32_t>(i);
    turn.content = Text(message.content, turn.origin);
    turn.tool_calls = message.tool_calls;
    turn.tool_call_id = message.tool_call_id;
    turn.name = message.name;
    turn.reasoning_content = message.reasoning_content;
    turns.push_back(std::move(turn));
  }
  return turns;
}

Result<Value> to_value(const Turns& turns, bool as_parts) {
  Values values;
  values.reserve(turns.size());
  for (const Turn& turn : turns) {
    ASSIGN_OR_RETURN(Value value, turn_value(turn, as_parts));
    values.push_back(std::move(value));
  }
  return make_list(std::move(values));
}

Result<Turns> write_tools(const Turns& turns, const Value& tools, ToolPlace place) {
  Turns out;
  bool follows_result = false;
  for (const Turn& turn : turns) {
    if (is_result(turn)) {
      append_result(out, turn, follows_result);
    } else {
      out.push_back(turn);
      RETURN_IF_ERROR(append_calls(out.back()));
    }
    follows_result = is_result(turn);
  }
  if (tools.as_list() != nullptr) {
    ASSIGN_OR_RETURN(const Text text, tools_text(tools));
    place_text(out, text, place);
  }
  return out;
}

}  // namespace refrain::text
