// Byte-pair encoder: construction from a vocabulary's merges, and encoding. Any thread.
#include "text/bpe.h"

#include <array>
#include <string>

#include "base/str.h"
#include "text/byte_level.h"
#include "text/merge_table.h"
#include "text/pre_tokenizer.h"
#include "text/special_tokens.h"
#include "text/symbol_merger.h"
#include "text/unicode.h"

namespace refrain::text {
namespace {

class BytePairEncoder final : public PlainEncoder {
 public:
  BytePairEncoder(const TokenTable& table, PreTokenizer pre_tokenizer);

  Result<void> add_merges(const TokenTable& table);
  void encode(std::string_view text, bool begins_prompt, TokenSink& sink) const override;

 private:
  void encode_words(std::string_view text, std::size_t offset, SymbolMerger& merger,
                    TokenSink& sink) const;
  void encode_word(std::string_view word, std::size_t offset, SymbolMerger& merger,
                   TokenSink& sink) const;

  PreTokenizer pre_tokenizer_;
  MergeTable merges_;
  std::array<SymbolId, 256> byte_symbols_{};  // kNoSymbol where the vocabulary lacks the byte
  TokenIndex whole_words_;                    // by bytes; filled if the pre-tokenizer wants it
  TokenTrie user_defined_;
};

TokenTrie user_defined_trie(const TokenTable& table) {
  std::vector<std::pair<std::string, TokenId>> tokens;
  for (const TokenId id : table.tokens_of_type(TokenType::kUserDefined))
    tokens.emplace_back(table.written(id), id);
  return TokenTrie(std::move(tokens));
}

BytePairEncoder::BytePairEncoder(const TokenTable& table, PreTokenizer pre_tokenizer)
    : pre_tokenizer_(pre_tokenizer),
      merges_(table.vocabulary().merges.size()),
      user_defined_(user_defined_trie(table)) {
  for (unsigned byte = 0; byte < byte_symbols_.size(); ++byte) {
    std::string written;
    append_utf8(byte_to_character(static_cast<std::uint8_t>(byte)), written);
    const auto id = table.find(written);
    const bool usable = id && table.type(*id) == TokenType::kNormal;
    byte_symbols_[byte] = usable ? static_cast<SymbolId>(to_int(*id)) : kNoSymbol;
  }
  if (!pre_tokenizer_.whole_words_first()) return;
  whole_words_ = TokenIndex(table.size(), [&table](TokenId id) { return table.piece(id, false); });
  for (const TokenId id : table.tokens_of_type(TokenType::kNormal)) whole_words_.add(id);
}

Result<void> BytePairEncoder::add_merges(const TokenTable& table) {
  const std::vector<std::string>& merges = table.vocabulary().merges;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view merge = merges[rank];
    // The first blank after the first character: a token may be the blank itself in odd files.
    const std::size_t blank = merge.find(' ', 1);
    const auto wrong = [&](std::string_view why) {
      return Error{Code::kInvalidArgument,
                   str_cat("merge ", rank, " `", to_valid_utf8(merge.substr(0, 100)), "` ", why),
                   "the model file is damaged or was converted wrongly; get or convert it again",
                   "tokenizer.ggml.merges"};
    };
    if (blank == std::string_view::npos || blank + 1 == merge.size())
      return wrong("is not two tokens");
    const auto left = table.find(merge.substr(0, blank));
    const auto right = table.find(merge.substr(blank + 1));
    std::string joined(merge.substr(0, blank));
    joined += merge.substr(blank + 1);
    const auto result = table.find(joined);
    if (!left || !right || !result) return wrong("names a token that is not in the vocabulary");
    if (table.is_special(*result)) continue;  // typed text never becomes a control token
    merges_.add(static_cast<SymbolId>(to_int(*left)), static_cast<SymbolId>(to_int(*right)),
                {static_cast<std::uint32_t>(rank), static_cast<SymbolId>(to_int(*result))});
  }
  return {};
}

void BytePairEncoder::encode(std::string_view text, bool /*begins_prompt*/, TokenSink& sink) const {
  SymbolMerger merger(merges_);
  std::size_t at = 0;
  while (at < text.size()) {
    const auto match = user_defined_.find(text, at);
    const std::size_t end = match ? match->begin : text.size();
    encode_words(text.substr(at, end - at), at, merger, sink);
    at = end;
    if (match) {
      at += match->length;
      sink.add(match->id, at);
    }
  }
}

void BytePairEncoder::encode_words(std::string_view text, std::size_t offset, SymbolMerger& merger,
                                   TokenSink& sink) const {
  PreTokenizer::Scanner scanner = pre_tokenizer_.scan(text);
  for (std::string_view word; scanner.next(word);) {
    const auto whole = pre_tokenizer_.whole_words_first() ? whole_words_.find(word) : std::nullopt;
    if (whole) {
      sink.add(*whole, offset + word.size());
    } else {
      encode_word(word, offset, merger, sink);
    }
    offset += word.size();
  }
}

void BytePairEncoder::encode_word(std::string_view word, std::size_t offset, SymbolMerger& merger,
                                  TokenSink& sink) const {
  const auto flush = [&] {
    merger.merge();
    merger.for_each([&](SymbolId id, std::uint32_t length) {
      offset += length;
      sink.add(TokenId{static_cast<std::int32_t>(id)}, offset);
    });
    merger.clear();
  };
  std::uint32_t length = 0;  // of bytes left out before, and this one
  for (const char c : word) {
    ++length;
    const SymbolId symbol = byte_symbols_[static_cast<unsigned char>(c)];
    if (symbol == kNoSymbol) continue;
    if (merger.full()) flush();
    merger.add(symbol, length);
    length = 0;
  }
  flush();
}

}  // namespace

Result<std::unique_ptr<PlainEncoder>> make_byte_pair_encoder(const TokenTable& table) {
  ASSIGN_OR_RETURN(PreTokenizer pre_tokenizer,
                   PreTokenizer::named(table.vocabulary().pre_tokenizer));
  auto encoder = std::make_unique<BytePairEncoder>(table, pre_tokenizer);
  RETURN_IF_ERROR(encoder->add_merges(table));
  return std::unique_ptr<PlainEncoder>(std::move(encoder));
}

}  // namespace refrain::text
