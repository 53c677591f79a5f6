// Renders chat templates for the golden tests. Reads lines of JSON from standard input, one case
// each, and answers each with a line of JSON; owns nothing else. One thread.
//
//   in:  {"template": "...", "input": {"messages": [...], "tools": [...], "add_generation_prompt":
//         true, "continue_final_message": false, "now": 0, "extra": {...}}, "bos": "<s>", "eos":
//         "</s>"}
//   out: {"parts": [["text", message], ...]} or {"error": "...", "field": "..."}
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "text/chat_template.h"

namespace {

using nlohmann::ordered_json;
using refrain::text::ChatMessage;
using refrain::text::ChatTemplate;
using refrain::text::RenderInput;

ChatMessage read_message(const ordered_json& json) {
  ChatMessage message;
  message.role = json.value("role", "");
  message.content = json.value("content", "");
  message.name = json.value("name", "");
  message.tool_call_id = json.value("tool_call_id", "");
  message.reasoning_content = json.value("reasoning_content", "");
  for (const ordered_json& call : json.value("tool_calls", ordered_json::array())) {
    message.tool_calls.push_back(
        {call.value("id", ""), call["function"]["name"], call["function"]["arguments"].dump()});
  }
  return message;
}

RenderInput read_input(const ordered_json& json) {
  RenderInput input;
  for (const ordered_json& message : json["messages"])
    input.messages.push_back(read_message(message));
  if (json.contains("tools")) input.tools_json = json["tools"].dump();
  if (json.contains("extra")) input.extra_json = json["extra"].dump();
  input.add_generation_prompt = json.value("add_generation_prompt", true);
  input.continue_final_message = json.value("continue_final_message", false);
  input.now_unix_s = json.value("now", std::int64_t{0});
  return input;
}

ordered_json answer(const ordered_json& json) {
  const auto failure = [](const refrain::Error& error) {
    return ordered_json{{"error", error.message}, {"field", error.field}};
  };
  const auto chat = ChatTemplate::parse(json["template"].get<std::string>(),
                                        {json.value("bos", ""), json.value("eos", "")});
  if (!chat.ok()) return failure(chat.error());
  const auto prompt = chat->render(read_input(json["input"]));
  if (!prompt.ok()) return failure(prompt.error());
  ordered_json parts = ordered_json::array();
  for (const auto& part : prompt->parts) parts.push_back({part.text, part.message});
  return {{"parts", parts}};
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    const ordered_json json = ordered_json::parse(line);
    std::cout << answer(json).dump(-1, ' ', false, ordered_json::error_handler_t::replace) << "\n";
  }
  return 0;
}
