// Tokenizers against naive models: the same merges by the textbook quadratic loop, the same tokens
// however a prompt is cut into parts, and every byte back.
#include "text/tokenizer.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "support/small_vocabularies.h"
#include "text/byte_level.h"
#include "text/pre_tokenizer.h"
#include "text/unicode.h"

namespace refrain::text {
namespace {

using test_support::small_byte_pair_vocabulary;
using test_support::small_sentence_piece_vocabulary;

const Tokenizer& byte_pair() {
  static const auto kTokenizer = Tokenizer::create(small_byte_pair_vocabulary()).value().release();
  return *kTokenizer;
}

const Tokenizer& sentence_piece() {
  static const auto kTokenizer =
      Tokenizer::create(small_sentence_piece_vocabulary()).value().release();
  return *kTokenizer;
}

std::string random_text() {
  static const std::vector<std::string> kParts = {
      "a",  "aa", "h",    "he",   "llo",  "hello",      "world", " ",     "  ",
      "\t", "\n", "1",    "23",   "'s",   "é",          "漢字",  "漢",    "🦙",
      "!",  "b",  "\xC3", "\xFF", "\x80", "<|im_end|>", "<h1>",  "[tag]", "<bos>"};
  std::string text;
  for (const auto& part : *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(kParts)))
    text += part;
  return text;
}

// The definition of byte-pair encoding: again and again the best pair of the whole word.
TokenList naive_byte_pair(const Vocabulary& v, std::string_view word) {
  std::map<std::string, std::size_t> ranks;
  for (std::size_t i = 0; i < v.merges.size(); ++i) ranks.emplace(v.merges[i], i);
  std::vector<std::string> symbols;
  for (const char c : word)
    append_utf8(byte_to_character(static_cast<std::uint8_t>(c)), symbols.emplace_back());
  for (;;) {
    std::size_t best = v.merges.size(), place = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto rank = ranks.find(symbols[i] + " " + symbols[i + 1]);
      if (rank != ranks.end() && rank->second < best) best = rank->second, place = i;
    }
    if (best == v.merges.size()) break;
    symbols[place] += symbols[place + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
  TokenList tokens;
  for (const auto& symbol : symbols) tokens.push_back(*byte_pair().find(symbol));
  return tokens;
}

RC_GTEST_PROP(BytePair, equals_the_naive_merge_loop_on_each_word, ()) {
  std::string text = random_text();
  for (auto at = text.find("[tag]"); at != text.npos; at = text.find("[tag]")) text.erase(at, 1);
  TokenList wanted;
  const PreTokenizer pre_tokenizer = PreTokenizer::named("gpt-2").value();
  auto scanner = pre_tokenizer.scan(text);
  for (std::string_view word; scanner.next(word);)
    for (const TokenId id : naive_byte_pair(byte_pair().vocabulary(), word)) wanted.push_back(id);
  RC_ASSERT(byte_pair().encode(text, {}) == wanted);
}

// The same for SentencePiece: no cutting into regions, no table of pairs, just texts and scores.
TokenList naive_sentence_piece(std::string text) {
  const Tokenizer& t = sentence_piece();
  const Vocabulary& v = t.vocabulary();
  const auto token_of = [&](const std::string& piece, TokenType type) -> std::optional<TokenId> {
    const auto id = t.find(piece);
    return id && v.types[static_cast<std::size_t>(to_int(*id))] == type ? id : std::nullopt;
  };
  struct Symbol {
    std::string text;
    bool frozen;
  };
  std::vector<Symbol> symbols;
  for (std::size_t at = 0; at < text.size();) {
    std::string longest;
    for (std::size_t length = 1; length <= 6 && at + length <= text.size(); ++length)
      if (token_of(text.substr(at, length), TokenType::kUserDefined))
        longest = text.substr(at, length);
    const bool frozen = !longest.empty();
    if (!frozen) longest = text.substr(at, code_point_at(text, at).length);
    at += longest.size();
    symbols.push_back({longest == " " ? "▁" : longest, frozen});
  }
  for (;;) {
    std::optional<std::size_t> place;
    float best = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      if (symbols[i].frozen || symbols[i + 1].frozen) continue;
      const auto id = token_of(symbols[i].text + symbols[i + 1].text, TokenType::kNormal);
      if (!id) continue;
      const float score = v.scores[static_cast<std::size_t>(to_int(*id))];
      if (!place || score > best) best = score, place = i;
    }
    if (!place) break;
    symbols[*place].text += symbols[*place + 1].text;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(*place) + 1);
  }
  TokenList tokens;
  for (const auto& [piece, frozen] : symbols) {
    const auto id = token_of(piece, frozen ? TokenType::kUserDefined : TokenType::kNormal);
    if (id) {
      tokens.push_back(*id);
      continue;
    }
    for (const char c : piece) {
      char written[8];
      std::snprintf(written, sizeof written, "<0x%02X>", static_cast<unsigned char>(c));
      tokens.push_back(*t.find(written));
    }
  }
  return tokens;
}

RC_GTEST_PROP(SentencePiece, equals_the_naive_merge_loop_over_the_whole_text, ()) {
  const std::string text = random_text();
  RC_ASSERT(sentence_piece().encode(text, {}) == naive_sentence_piece(text));
}

RC_GTEST_PROP(Tokenizers, give_every_byte_back, ()) {
  const std::string text = random_text();
  for (const Tokenizer* t : {&byte_pair(), &sentence_piece()}) {
    RC_ASSERT(t->decode(t->encode(text, {})) == text);
    RC_ASSERT(t->decode(t->encode(text, {.parse_special = true}), true) == text);
    for (const TokenId id : t->encode(text, {})) RC_ASSERT(!t->is_control(id));
  }
}

RC_GTEST_PROP(EncodePrompt, parts_do_not_change_the_tokens_of_plain_text, ()) {
  const std::string text = random_text();
  Prompt prompt;
  std::vector<std::size_t> offsets;  // where each message begins in the text
  for (std::size_t at = 0; at < text.size();) {
    const auto length = *rc::gen::inRange<std::size_t>(1, 8);
    prompt.parts.push_back({text.substr(at, length), static_cast<std::int32_t>(offsets.size())});
    offsets.push_back(at);
    at += length;
  }
  for (const Tokenizer* t : {&byte_pair(), &sentence_piece()}) {
    const EncodedPrompt encoded = t->encode_prompt(prompt);
    RC_ASSERT(encoded.tokens == t->encode(text, {}));
    RC_ASSERT(encoded.message_begin.size() == offsets.size());
    std::size_t token = 0, end = 0;  // tokens[token] is the first one that ends behind `end`
    for (std::size_t m = 0; m < offsets.size(); ++m) {
      while (end + t->piece(encoded.tokens[token]).size() <= offsets[m])
        end += t->piece(encoded.tokens[token++]).size();
      RC_ASSERT(encoded.message_begin[m] == token);
    }
  }
}

}  // namespace
}  // namespace refrain::text
