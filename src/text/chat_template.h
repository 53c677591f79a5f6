// ChatTemplate: renders messages with a model's Jinja template into a Prompt. Bounded: steps,
// output size and nesting are limited, so a broken or hostile template is an error, never a hang.
// Immutable after parse(); any thread.
//
//   ASSIGN_OR_RETURN(ChatTemplate chat, ChatTemplate::parse(source, special_tokens));
//   ASSIGN_OR_RETURN(Prompt prompt, chat.render({.messages = messages, .add_generation_prompt = true}));
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/prompt.h"

namespace refrain::text {

struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments_json;  // key order as the model wrote it; never sorted
};

struct ChatMessage {
  std::string role;                     // system | user | assistant | tool | developer ...
  std::string content;                  // text parts already joined
  std::vector<ToolCall> tool_calls;     // assistant only
  std::string tool_call_id;             // tool only
  std::string name;                     // optional participant or tool name
  std::string reasoning_content;        // assistant only, accepted on input
};

struct SpecialTokens {
  std::string bos;  // written forms; "" if the vocabulary has none
  std::string eos;
};

struct RenderInput {
  std::vector<ChatMessage> messages;
  std::string tools_json;               // JSON array of tool definitions, "" = none
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // last message is an assistant prefill: leave its turn open
  std::int64_t now_unix_s = 0;          // for strftime_now, cut to whole days
  std::string extra_json;               // JSON object chat_template_kwargs, "" = none
};

struct TemplateLimits {
  std::uint64_t max_steps = 2'000'000;
  std::size_t max_output_bytes = 32U << 20U;
  std::size_t max_depth = 64;
};

class ChatTemplate {
 public:
  // kInvalidArgument with line and reason for a syntax error or an unknown construct.
  static Result<ChatTemplate> parse(std::string_view source, SpecialTokens special,
                                    TemplateLimits limits = {});
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // kInvalidArgument carrying the template's own words for raise_exception; also when a limit is
  // hit. Text of messages (content, names, tool results ...) lands in parts with its message's
  // index, everything else in template parts.
  Result<Prompt> render(const RenderInput& input) const;

  // Whether the template itself handles tools; if not, render() writes them into the system turn
  // (docs/reference/tools.md), calls in assistant turns as <tool_call>{...}</tool_call> and tool
  // results as user turns with <tool_response>...</tool_response>.
  bool knows_tools() const;
  const std::string& source() const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace refrain::text
