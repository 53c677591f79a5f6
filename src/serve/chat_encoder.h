// ChatEncoder: messages -> tokens, through the model's template. Refuses what cannot fit before the
// work of tokenizing it. Immutable; any thread. All it is made of outlives it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/request.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace refrain::serve {

class ChatEncoder {
 public:
  // `chat_template` null: encode() refuses with the remedy. `longer_by`: ServerParts says which.
  ChatEncoder(const text::Tokenizer& tokenizer, const text::ChatTemplate* chat_template,
              std::uint32_t max_context, std::string_view longer_by = "--max-context");

  // Text of more bytes cannot fit, whatever it says.
  std::size_t most_text_bytes() const { return (max_context_ + 1) * longest_token_bytes_ - 1; }
  // kContextLength if so much text has too many tokens, whatever they are.
  Result<void> check_length(std::size_t text_bytes, std::string_view field) const;
  // `now_unix_s` of the input and head_tokens of the result are filled in here. kUnsupported,
  // kContextLength, or what the template says; `field` is "messages" where it names none.
  Result<text::EncodedPrompt> encode(text::RenderInput input) const;

 private:
  const text::Tokenizer& tokenizer_;
  const text::ChatTemplate* const chat_template_;
  const std::uint32_t max_context_;
  const std::string_view longer_by_;
  const std::size_t longest_token_bytes_;
};

// Hint about a prompt that is longer than the context; `longer_by` as in ServerParts.
std::string too_long_hint(std::string_view longer_by);

// All that a request is told of its prompt.
void set_prompt(engine::GenerateRequest& request, text::EncodedPrompt prompt);

}  // namespace refrain::serve
