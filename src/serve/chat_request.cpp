// See chat_request.h.
#include "serve/chat_request.h"

#include "serve/chat_messages.h"
#include "serve/json_writer.h"

namespace refrain::serve {
namespace {

constexpr std::int64_t kMaxTopLogprobs = 20;

void read_chat_logprobs(FieldReader& read, engine::SamplingParams* sampling) {
  bool wanted = false;
  std::int64_t top = 0;
  read.boolean("logprobs", &wanted);
  const bool top_given = read.integer("top_logprobs", 0, kMaxTopLogprobs, &top);
  // 0 without logprobs asks for nothing, and some clients always send it.
  if (top_given && top > 0 && !wanted) read.fail("top_logprobs", "needs `logprobs` to be true");
  if (wanted) sampling->top_logprobs = static_cast<std::int32_t>(top);
}

// A last message of the assistant is the beginning of the answer, unless the client says otherwise.
void read_prefill(FieldReader& read, ChatRequest* request) {
  if (request->messages.empty()) return;
  const text::ChatMessage& last = request->messages.back();
  const bool may_continue = last.role == "assistant" && last.tool_calls.empty();
  bool continued = may_continue && read.any("add_generation_prompt") == nullptr;
  read.boolean("continue_final_message", &continued);
  bool prompt = !continued;
  read.boolean("add_generation_prompt", &prompt);
  if (continued && !may_continue)
    read.fail("continue_final_message", "needs a last message of the assistant without tool_calls");
  if (continued && prompt)
    read.fail("add_generation_prompt", "cannot be true together with `continue_final_message`");
  request->continue_final_message = continued;
  request->add_generation_prompt = prompt;
}

}  // namespace

text::RenderInput render_input(const ChatRequest& request) {
  text::RenderInput input;
  input.messages = request.messages;
  input.tools_json = request.tools.tools_json;
  input.add_generation_prompt = request.add_generation_prompt;
  input.continue_final_message = request.continue_final_message;
  input.extra_json = request.template_kwargs_json;
  return input;
}

void read_prompt_fields(FieldReader& read, ChatRequest* request) {
  request->messages = read_messages(read);
  if (!read.failed()) request->tools = read_tool_fields(read);
  if (!read.failed()) read_prefill(read, request);
  if (const Json* kwargs = read.object("chat_template_kwargs"))
    request->template_kwargs_json = to_text(*kwargs);
}

Result<ChatRequest> read_chat_request(const Json& body, const GenerationDefaults& defaults) {
  ChatRequest request;
  FieldReader read(body, "");
  if (read.failed()) return read.error();
  read_prompt_fields(read, &request);
  request.generation = read_generation_fields(read, defaults);
  read_chat_logprobs(read, &request.generation.sampling);
  if (read.failed()) return read.error();
  return request;
}

}  // namespace refrain::serve
