// Small vocabularies for tests and the fuzz target of the tokenizers. Plain functions, any thread.
#pragma once

#include <cstdio>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "text/byte_level.h"
#include "text/unicode.h"
#include "text/vocabulary.h"

namespace refrain::test_support {

inline TokenId add_token(text::Vocabulary& v, std::string_view token, text::TokenType type,
                         float score = 0) {
  v.tokens.emplace_back(token);
  v.types.push_back(type);
  if (v.kind == text::VocabularyKind::kSentencePiece) v.scores.push_back(score);
  return TokenId{static_cast<std::int32_t>(v.tokens.size() - 1)};
}

// All 256 bytes, some merges over English, blanks, digits and é, control tokens with BOS and the
// user-defined token "[tag]".
inline text::Vocabulary small_byte_pair_vocabulary(std::string pre_tokenizer = "gpt-2") {
  using text::TokenType;
  text::Vocabulary v;
  v.kind = text::VocabularyKind::kBytePair;
  v.pre_tokenizer = std::move(pre_tokenizer);
  v.bos = add_token(v, "<|begin|>", TokenType::kControl);
  v.eos = add_token(v, "<|im_end|>", TokenType::kControl);
  add_token(v, "<|im_start|>", TokenType::kControl);
  add_token(v, "<|im_start|>x", TokenType::kControl);
  add_token(v, "[tag]", TokenType::kUserDefined);
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::string written;
    text::append_utf8(text::byte_to_character(static_cast<std::uint8_t>(byte)), written);
    add_token(v, written, TokenType::kNormal);
  }
  for (const char* merge : {"h e",   "l l", "he ll", "hell o", "Ġ hello", "Ġ Ġ",  "ĠĠ ĠĠ", "a b",
                            "ab ab", "1 2", "12 3",  "' s",    "Ã ©",     "a a",  "aa aa", "Ċ Ċ",
                            "Ġ w",   "o r", "or l",  "orl d",  "Ġw orld", "w or", "e l"}) {
    v.merges.emplace_back(merge);
    std::string joined = merge;
    joined.erase(joined.find(' '), 1);
    bool known = false;
    for (const std::string& token : v.tokens) known = known || token == joined;
    if (!known) add_token(v, joined, TokenType::kNormal);
  }
  return v;
}

// <unk>, BOS, EOS, byte tokens if wanted, user-defined runs of blanks and tabs, scored pieces.
inline text::Vocabulary small_sentence_piece_vocabulary(bool byte_tokens = true) {
  using text::TokenType;
  text::Vocabulary v;
  v.kind = text::VocabularyKind::kSentencePiece;
  v.unknown = add_token(v, "<unk>", TokenType::kUnknown);
  v.bos = add_token(v, "<bos>", TokenType::kControl);
  v.eos = add_token(v, "<eos>", TokenType::kControl);
  add_token(v, "<end_of_turn>", TokenType::kControl);
  for (unsigned byte = 0; byte_tokens && byte < 256; ++byte) {
    char written[8];
    std::snprintf(written, sizeof written, "<0x%02X>", byte);
    add_token(v, written, TokenType::kByte);
  }
  for (const char* token : {"  ", "   ", "    ", "\t", "\t\t", "\n", "\n\n", "<h1>", "</h1>"})
    add_token(v, token, TokenType::kUserDefined);
  float score = 0;
  for (const char* token : {"he",    "ll", "hell",   "▁h", "hello", "▁hello", "or", "wor", "ld",
                            "world", "▁w", "▁world", "aa", "aaa",   "漢字",   "▁",  "h",   "e",
                            "l",     "o",  "w",      "r",  "d",     "a",      "漢"})
    add_token(v, token, TokenType::kNormal, score -= 1);
  return v;
}

}  // namespace refrain::test_support
