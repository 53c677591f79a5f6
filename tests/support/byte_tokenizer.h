// ByteTokenizer: a tokenizer for tests that needs no model: token i < 256 is the byte i, then come
// BOS, EOS and whatever words a test asks for. Any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace refrain::test {

class ByteTokenizer final : public text::Tokenizer {
 public:
  static constexpr TokenId kBos{256};
  static constexpr TokenId kEos{257};

  explicit ByteTokenizer(const std::vector<std::string>& words = {}) {
    for (int byte = 0; byte < 256; ++byte) pieces_.emplace_back(1, static_cast<char>(byte));
    pieces_.emplace_back("<bos>");
    pieces_.emplace_back("<eos>");
    pieces_.insert(pieces_.end(), words.begin(), words.end());
  }

  // Longest word first at every place, else single bytes.
  TokenList encode(std::string_view text, const text::EncodeOptions& options) const override {
    TokenList tokens;
    if (options.add_bos) tokens.push_back(kBos);
    while (!text.empty()) {
      std::size_t best = static_cast<unsigned char>(text.front());
      for (std::size_t id = 258; id < pieces_.size(); ++id)
        if (text.starts_with(pieces_[id]) && pieces_[id].size() > pieces_[best].size()) best = id;
      tokens.push_back(static_cast<TokenId>(best));
      text.remove_prefix(pieces_[best].size());
    }
    return tokens;
  }
  text::EncodedPrompt encode_prompt(const text::Prompt& prompt) const override {
    text::EncodedPrompt encoded;
    for (const text::PromptPart& part : prompt.parts) {
      if (!part.is_template() && !part.text.empty())
        encoded.message_begin.resize(static_cast<std::size_t>(part.message) + 1,
                                     encoded.tokens.size());
      for (const TokenId token : encode(part.text, {})) encoded.tokens.push_back(token);
    }
    return encoded;
  }
  std::string_view piece(TokenId id, bool render_special = false) const override {
    if (is_control(id) && !render_special) return {};
    return pieces_[static_cast<std::size_t>(to_int(id))];
  }
  std::string decode(const TokenList& tokens, bool render_special = false) const override {
    std::string text;
    for (const TokenId token : tokens) text += piece(token, render_special);
    return text;
  }
  std::size_t size() const override { return pieces_.size(); }
  bool is_control(TokenId id) const override { return id == kBos || id == kEos; }
  bool is_end_of_generation(TokenId id) const override { return id == kEos; }
  std::optional<TokenId> find(std::string_view token_text) const override {
    for (std::size_t id = 0; id < pieces_.size(); ++id)
      if (pieces_[id] == token_text) return static_cast<TokenId>(id);
    return std::nullopt;
  }
  const text::Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  std::vector<std::string> pieces_;
  text::Vocabulary vocabulary_;
};

}  // namespace refrain::test
