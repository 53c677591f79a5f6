// See chat_encoder.h.
#include "serve/chat_encoder.h"

#include <algorithm>

#include "base/clock.h"
#include "base/str.h"

namespace refrain::serve {
namespace {

std::size_t longest_token(const text::Tokenizer& tokenizer) {
  std::size_t longest = 1;
  for (std::size_t id = 0; id < tokenizer.size(); ++id)
    longest =
        std::max(longest, tokenizer.piece(TokenId{static_cast<std::int32_t>(id)}, true).size());
  return longest;
}

// Up to the first message that is no system turn: to its header, or, with tools, to its text, for
// some templates write their definitions in front of that. A template may have a system turn of its
// own where the client sent none.
std::size_t head_tokens(const text::RenderInput& input, const text::EncodedPrompt& prompt) {
  const auto& messages = input.messages;
  const auto first =
      std::find_if(messages.begin(), messages.end(), [](const text::ChatMessage& message) {
        return message.role != "system" && message.role != "developer";
      });
  const auto& places = input.tools_json.empty() ? prompt.header_begin : prompt.message_begin;
  const auto begin = places.begin() + std::min(first - messages.begin(), std::ssize(places));
  // A message without text has no place: what comes behind it says where it must be in front of.
  return begin == places.end() ? prompt.tokens.size() : *std::min_element(begin, places.end());
}

}  // namespace

std::string too_long_hint(std::string_view longer_by) {
  if (longer_by.empty()) return "shorten the prompt: the model has no longer context";
  return str_cat("shorten the prompt, or start the server with a larger ", longer_by);
}

ChatEncoder::ChatEncoder(const text::Tokenizer& tokenizer, const text::ChatTemplate* chat_template,
                         std::uint32_t max_context, std::string_view longer_by)
    : tokenizer_(tokenizer),
      chat_template_(chat_template),
      max_context_(max_context),
      longer_by_(longer_by),
      longest_token_bytes_(longest_token(tokenizer)) {}

Result<void> ChatEncoder::check_length(std::size_t text_bytes, std::string_view field) const {
  const std::size_t fewest_tokens = text_bytes / longest_token_bytes_;
  if (fewest_tokens <= max_context_) return {};
  return Error{Code::kContextLength,
               str_cat("the prompt has more than ", fewest_tokens,
                       " tokens; the maximum context length is ", max_context_, " tokens"),
               too_long_hint(longer_by_), std::string(field)};
}

Result<text::EncodedPrompt> ChatEncoder::encode(text::RenderInput input) const {
  if (chat_template_ == nullptr)
    return Error{Code::kUnsupported, "this model has no chat template",
                 "use /v1/completions, or start the server with --chat-template FILE", "messages"};
  std::size_t text_bytes = 0;
  for (const text::ChatMessage& message : input.messages) text_bytes += message.content.size();
  RETURN_IF_ERROR(check_length(text_bytes, "messages"));
  input.now_unix_s = unix_now_s();
  Result<text::Prompt> prompt = chat_template_->render(input);
  if (!prompt.ok()) {
    Error error = prompt.error();
    if (error.field.empty()) error.field = "messages";
    return error;
  }
  text::EncodedPrompt encoded = tokenizer_.encode_prompt(*prompt);
  encoded.head_tokens = head_tokens(input, encoded);
  return encoded;
}

void set_prompt(engine::GenerateRequest& request, text::EncodedPrompt prompt) {
  request.prompt = std::move(prompt.tokens);
  request.message_begin = std::move(prompt.message_begin);
  request.header_begin = std::move(prompt.header_begin);
  request.head_tokens = prompt.head_tokens;
}

}  // namespace refrain::serve
