// module: text
// Fuzzes both tokenizers with small built-in vocabularies: no crash, every byte comes back, plain
// text never yields control tokens, and a cut into prompt parts changes nothing.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "../support/small_vocabularies.h"
#include "text/text_decoder.h"
#include "text/tokenizer.h"

namespace {

using refrain::TokenId;
using refrain::TokenList;
using refrain::text::Tokenizer;

void require(bool condition) {
  if (!condition) std::abort();
}

// What comes back of `text`: SentencePiece writes blanks as "\u2581" and cannot tell the two apart.
std::string expected(const Tokenizer& tokenizer, std::string_view text) {
  std::string back(text);
  if (tokenizer.vocabulary().kind == refrain::text::VocabularyKind::kBytePair) return back;
  constexpr std::string_view kBlank = "\u2581";
  for (auto at = back.find(kBlank); at != back.npos; at = back.find(kBlank, at))
    back.replace(at, kBlank.size(), " ");
  return back;
}

void check(const Tokenizer& tokenizer, std::string_view text, std::size_t cut) {
  const TokenList plain = tokenizer.encode(text, {});
  require(tokenizer.decode(plain) == expected(tokenizer, text));
  for (const TokenId id : plain) require(!tokenizer.is_control(id));
  const TokenList special = tokenizer.encode(text, {.add_bos = true, .parse_special = true});
  require(tokenizer.decode(special, true) == expected(tokenizer, text));

  const auto parts = tokenizer.encode_prompt(
      {{{std::string(text.substr(0, cut)), 0}, {std::string(text.substr(cut)), 1}}});
  require(parts.tokens == plain);
  require(parts.message_begin.size() == 2);

  refrain::text::TextDecoder whole, single;
  std::string pieces;
  for (const TokenId id : plain) pieces += single.push(tokenizer.piece(id));
  pieces += single.finish();
  std::string all = whole.push(expected(tokenizer, text));
  all += whole.finish();
  require(pieces == all);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto kByName = [] {
    std::vector<std::unique_ptr<Tokenizer>> all;
    for (const char* name : {"gpt-2", "smollm", "llama-bpe", "qwen2", "default"})
      all.push_back(
          Tokenizer::create(refrain::test_support::small_byte_pair_vocabulary(name)).value());
    all.push_back(
        Tokenizer::create(refrain::test_support::small_sentence_piece_vocabulary()).value());
    return all;
  }();
  if (size < 2) return 0;
  // First byte: which tokenizer; second: where the text is cut into two messages.
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  check(*kByName[data[0] % kByName.size()], text, data[1] % (text.size() + 1));
  return 0;
}
