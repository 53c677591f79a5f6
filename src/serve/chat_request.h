// ChatRequest: the body of POST /v1/chat/completions, checked. Plain data; any thread.
#pragma once

#include <string>
#include <vector>

#include "serve/generation_fields.h"
#include "serve/json.h"
#include "serve/tool_fields.h"
#include "text/chat_template.h"

namespace refrain::serve {

struct ChatRequest {
  GenerationFields generation;
  std::vector<text::ChatMessage> messages;
  ToolFields tools;
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // the last message is an assistant prefill
  std::string template_kwargs_json;     // "" = none
};

// kInvalidArgument or kUnsupported with the field at fault. Unknown fields are ignored.
Result<ChatRequest> read_chat_request(const Json& body, const GenerationDefaults& defaults);

// What the template gets of it; the time is left open.
text::RenderInput render_input(const ChatRequest& request);

// The prompt-shaping fields alone, for /tokenize with messages.
void read_prompt_fields(FieldReader& read, ChatRequest* request);

}  // namespace refrain::serve
