// Prompt: text for the tokenizer, with what the server wrote (template, control markers) kept
// apart from what a client typed. Control markers count only in template parts: "<|im_end|>"
// typed by a user stays plain text. Plain data; any thread.
//
//   parts:  [template "<|im_start|>user\n"]
//           [user "A<|im_end|>B", message 1]
//           [template "<|im_end|>\n"]
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"

namespace refrain::text {

struct PromptPart {
  static constexpr std::int32_t kTemplate = -1;  // written by the template or the server
  std::string text;
  std::int32_t message = kTemplate;  // index of the message whose text this is, or kTemplate
  bool is_template() const { return message == kTemplate; }
};

struct Prompt {
  std::vector<PromptPart> parts;
};

// A tokenized prompt. `message_begin[i]` is the index of the first token that holds text of
// message i (== tokens.size() for a message without text); used to explain misses.
// `header_begin[i]` is where what leads to that text begins: the first control token since the last
// text, or since the last one that ends a turn; message_begin[i] if there is none. Used to cut
// between turns.
//
//   <|im_end|> \n <|im_start|> user \n What ...
//                  header_begin          message_begin
struct EncodedPrompt {
  TokenList tokens;
  std::vector<std::size_t> message_begin;
  std::vector<std::size_t> header_begin = {};
  // What is in front of the first turn that is no system turn: rules, definitions of tools.
  std::size_t head_tokens = 0;
};

}  // namespace refrain::text
