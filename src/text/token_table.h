// TokenTable: a vocabulary checked once and made quick to ask: bytes of each token, token of a
// written form, which ones are control tokens or end a generation. Owns the vocabulary.
// Immutable after create(); any thread.
//
//   ASSIGN_OR_RETURN(auto table, TokenTable::create(std::move(vocabulary)));
//   table->piece(id, false);
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "text/vocabulary.h"

namespace refrain::text {

// A hash table from texts to token ids which stores ids only; the texts stay with their owner.
// Of equal texts the lowest id is found.
class TokenIndex {
 public:
  using TextOf = std::function<std::string_view(TokenId)>;
  TokenIndex() = default;
  // `text_of` must stay valid; room for `count_max` tokens.
  TokenIndex(std::size_t count_max, TextOf text_of);

  void add(TokenId id);
  std::optional<TokenId> find(std::string_view text) const;

 private:
  struct Slot {
    std::uint32_t hash = 0;  // spares most looks at other texts
    std::int32_t id = -1;    // -1: free
  };
  static std::uint32_t hash_of(std::string_view text);
  // Its slot, or the free one it would get.
  std::size_t place_of(std::string_view text, std::uint32_t hash) const;

  TextOf text_of_;
  std::vector<Slot> slots_;  // a power of two, at most half full
};

class TokenTable {
 public:
  // Longest token accepted; real vocabularies stay below 300 bytes.
  static constexpr std::size_t kTokenBytesMax = 4096;

  // kInvalidArgument, naming the key of the file at fault, if the vocabulary is inconsistent.
  static Result<std::unique_ptr<TokenTable>> create(Vocabulary vocabulary);
  TokenTable(const TokenTable&) = delete;
  TokenTable& operator=(const TokenTable&) = delete;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  std::size_t size() const { return vocabulary_.tokens.size(); }
  TokenType type(TokenId id) const;
  const std::string& written(TokenId id) const;
  // Text that only template text may turn into this token: control and unknown ones.
  bool is_special(TokenId id) const;
  bool is_end_of_generation(TokenId id) const;
  // Bytes in output; special tokens only if `render_special`.
  std::string_view piece(TokenId id, bool render_special) const;
  std::optional<TokenId> find(std::string_view written) const { return index_.find(written); }
  std::vector<TokenId> tokens_of_type(TokenType type) const;

 private:
  explicit TokenTable(Vocabulary vocabulary);
  void append_piece(TokenId id);
  std::size_t at(TokenId id) const;

  Vocabulary vocabulary_;
  TokenIndex index_;                        // by written form
  std::string bytes_;                       // pieces of all tokens, one after the other
  std::vector<std::uint32_t> piece_begin_;  // [size + 1] into bytes_
  std::vector<bool> ends_generation_;       // [size]
};

// Value of a byte token's written form "<0x0A>", or nothing.
std::optional<std::uint8_t> parse_byte_token(std::string_view written);

}  // namespace refrain::text
