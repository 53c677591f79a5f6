// PlainEncoder: what differs between the kinds of tokenizers: plain text (no control tokens) to
// tokens. TokenSink collects them together with where each one ends in the text.
// Encoders are immutable, any thread; a sink belongs to one call.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace refrain::text {

class TokenSink {
 public:
  // `ends` may be null: nobody wants the places.
  TokenSink(TokenList& tokens, std::vector<std::size_t>* ends) : tokens_(tokens), ends_(ends) {}

  // `end`: bytes of the text up to and with this token.
  void add(TokenId id, std::size_t end) {
    tokens_.push_back(id);
    if (ends_ != nullptr) ends_->push_back(end);
  }

 private:
  TokenList& tokens_;
  std::vector<std::size_t>* ends_;
};

class PlainEncoder {
 public:
  virtual ~PlainEncoder() = default;
  // `begins_prompt`: no text stands before this one (SentencePiece's artificial blank goes there).
  virtual void encode(std::string_view text, bool begins_prompt, TokenSink& sink) const = 0;
};

}  // namespace refrain::text
