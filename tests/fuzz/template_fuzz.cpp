// module: text
// Parses and renders arbitrary templates with small limits. Input: template, then (behind a zero
// byte) content of the message, then (behind another) JSON of tools. Typed text must never lie in a
// template part: the content's marker character is checked.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace refrain::text;
  const std::string input(reinterpret_cast<const char*>(data), size);
  const std::size_t first = std::min(input.find('\0'), input.size());
  const std::size_t second = std::min(input.find('\0', first + 1), input.size());
  const std::string content =
      first < input.size() ? input.substr(first + 1, second - first - 1) : "content";
  const std::string tools = second < input.size() ? input.substr(second + 1) : "";
  const auto chat =
      ChatTemplate::parse(input.substr(0, first), {"<s>", "</s>"},
                          {.max_steps = 20'000, .max_output_bytes = 1U << 18U, .max_depth = 64});
  if (!chat.ok()) return 0;
  // U+E000 (private use) marks client text; a template may still write it itself.
  const std::string mark = "\xee\x80\x80";
  const bool own_mark = input.substr(0, first).find(mark) != std::string::npos ||
                        input.substr(0, first).find('\\') != std::string::npos;
  ChatMessage message;
  message.role = "user";
  message.content = mark + content;
  ChatMessage reply;
  reply.role = "assistant";
  reply.content = mark;
  reply.tool_calls = {{"1", "f", "{\"a\": 1.50, \"b\": [\"" + mark + "\"]}"}};
  RenderInput render{.messages = {message, reply, message}, .tools_json = tools, .now_unix_s = 1};
  const auto check = [&](const refrain::Result<Prompt>& prompt) {
    if (!prompt.ok()) return;
    for (const PromptPart& part : prompt->parts) {
      if (part.message < -1 || part.message > 3) std::abort();
      if (part.is_template() && !own_mark && part.text.find(mark) != std::string::npos)
        std::abort();
    }
  };
  check(chat->render(render));
  reply.tool_calls.clear();
  render.messages = {message, reply};
  render.continue_final_message = true;
  check(chat->render(render));
  return 0;
}
