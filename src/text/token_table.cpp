// Checks of a vocabulary and the tables derived from it. Any thread.
#include "text/token_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/str.h"
#include "text/byte_level.h"

namespace refrain::text {
namespace {

// Written forms by which chat models end their turn; they count where they are control tokens.
constexpr std::array<std::string_view, 12> kEndMarkers = {
    "<|im_end|>",    "<|eot_id|>", "<|eom_id|>",    "<|end_of_text|>",
    "<|endoftext|>", "<|end|>",    "<end_of_turn>", "<|return|>",
    "<|call|>",      "</s>",       "<eos>",         "<|eot|>"};

Error bad(std::string message, std::string_view key) {
  return Error{Code::kInvalidArgument, std::move(message),
               "the model file is damaged or was converted wrongly; get or convert it again",
               str_cat("tokenizer.ggml.", key)};
}

Result<void> check_sizes(const Vocabulary& v) {
  const std::size_t count = v.tokens.size();
  if (count == 0) return bad("the vocabulary has no tokens", "tokens");
  if (count > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()) / 4)
    return bad(str_cat("the vocabulary has too many tokens: ", count), "tokens");
  if (!v.types.empty() && v.types.size() != count)
    return bad(str_cat(v.types.size(), " token types for ", count, " tokens"), "token_type");
  for (const TokenType type : v.types)
    if (type < TokenType::kNormal || type > TokenType::kByte)
      return bad(str_cat("unknown token type ", static_cast<int>(type)), "token_type");
  std::size_t byte_count = 0;
  for (const std::string& token : v.tokens) {
    if (token.size() > TokenTable::kTokenBytesMax)
      return bad(str_cat("a token of ", token.size(), " bytes; at most ",
                         TokenTable::kTokenBytesMax, " are accepted"),
                 "tokens");
    byte_count += token.size();
  }
  if (byte_count > std::numeric_limits<std::uint32_t>::max() / 4)
    return bad(str_cat("the tokens take ", byte_count, " bytes"), "tokens");
  return {};
}

Result<void> check_scores(const Vocabulary& v) {
  if (v.kind != VocabularyKind::kSentencePiece) return {};
  if (v.scores.size() != v.tokens.size())
    return bad(str_cat(v.scores.size(), " scores for ", v.tokens.size(), " tokens"), "scores");
  if (std::any_of(v.scores.begin(), v.scores.end(), [](float s) { return std::isnan(s); }))
    return bad("a token's score is not a number", "scores");
  return {};
}

Result<void> check_ids(const Vocabulary& v) {
  const auto check = [&](const std::optional<TokenId>& id, std::string_view key) -> Result<void> {
    if (!id || (to_int(*id) >= 0 && static_cast<std::size_t>(to_int(*id)) < v.tokens.size()))
      return {};
    return bad(str_cat("token id ", to_int(*id), " is outside the vocabulary of ", v.tokens.size()),
               key);
  };
  RETURN_IF_ERROR(check(v.bos, "bos_token_id"));
  RETURN_IF_ERROR(check(v.eos, "eos_token_id"));
  RETURN_IF_ERROR(check(v.eot, "eot_token_id"));
  RETURN_IF_ERROR(check(v.unknown, "unknown_token_id"));
  RETURN_IF_ERROR(check(v.padding, "padding_token_id"));
  if (v.add_bos && !v.bos)
    return bad("a BOS token is to be added, but none is named", "bos_token_id");
  return {};
}

}  // namespace

TokenIndex::TokenIndex(std::size_t count_max, TextOf text_of)
    : text_of_(std::move(text_of)), slots_(std::bit_ceil(count_max * 2 + 1)) {}

std::uint32_t TokenIndex::hash_of(std::string_view text) {
  return static_cast<std::uint32_t>(std::hash<std::string_view>{}(text));
}

std::size_t TokenIndex::place_of(std::string_view text, std::uint32_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t place = hash & mask;
  while (slots_[place].id >= 0 &&
         (slots_[place].hash != hash || text_of_(TokenId{slots_[place].id}) != text))
    place = (place + 1) & mask;
  return place;
}

void TokenIndex::add(TokenId id) {
  const std::string_view text = text_of_(id);
  const std::uint32_t hash = hash_of(text);
  Slot& slot = slots_[place_of(text, hash)];
  if (slot.id < 0) slot = {hash, to_int(id)};
}

std::optional<TokenId> TokenIndex::find(std::string_view text) const {
  if (slots_.empty()) return std::nullopt;
  const Slot& slot = slots_[place_of(text, hash_of(text))];
  return slot.id < 0 ? std::nullopt : std::optional(TokenId{slot.id});
}

std::optional<std::uint8_t> parse_byte_token(std::string_view written) {
  if (written.size() != 6 || !written.starts_with("<0x") || written[5] != '>') return std::nullopt;
  unsigned value = 0;
  for (const char c : written.substr(3, 2)) {
    value *= 16;
    if (c >= '0' && c <= '9')
      value += static_cast<unsigned>(c - '0');
    else if (c >= 'A' && c <= 'F')
      value += static_cast<unsigned>(c - 'A' + 10);
    else if (c >= 'a' && c <= 'f')
      value += static_cast<unsigned>(c - 'a' + 10);
    else
      return std::nullopt;
  }
  return static_cast<std::uint8_t>(value);
}

Result<std::unique_ptr<TokenTable>> TokenTable::create(Vocabulary vocabulary) {
  RETURN_IF_ERROR(check_sizes(vocabulary));
  RETURN_IF_ERROR(check_scores(vocabulary));
  RETURN_IF_ERROR(check_ids(vocabulary));
  return std::unique_ptr<TokenTable>(new TokenTable(std::move(vocabulary)));
}

TokenTable::TokenTable(Vocabulary vocabulary)
    : vocabulary_(std::move(vocabulary)),
      index_(size(), [this](TokenId id) { return std::string_view(written(id)); }),
      ends_generation_(size(), false) {
  piece_begin_.reserve(size() + 1);
  for (std::size_t i = 0; i < size(); ++i) {
    const TokenId id{static_cast<std::int32_t>(i)};
    index_.add(id);
    piece_begin_.push_back(static_cast<std::uint32_t>(bytes_.size()));
    append_piece(id);
  }
  piece_begin_.push_back(static_cast<std::uint32_t>(bytes_.size()));

  for (const auto& end : {vocabulary_.eos, vocabulary_.eot})
    if (end) ends_generation_[at(*end)] = true;
  for (const std::string_view marker : kEndMarkers) {
    const auto id = find(marker);
    if (id && type(*id) == TokenType::kControl) ends_generation_[at(*id)] = true;
  }
}

void TokenTable::append_piece(TokenId id) {
  const std::string_view text = written(id);
  const TokenType token_type = type(id);
  if (vocabulary_.kind == VocabularyKind::kBytePair) {
    // Tokens added by hand are written as they are, not in the byte-level alphabet.
    if (token_type == TokenType::kNormal || token_type == TokenType::kUnused)
      append_byte_level(text, bytes_);
    else
      bytes_ += text;
    return;
  }
  if (token_type == TokenType::kByte) {
    if (const auto byte = parse_byte_token(text)) {
      bytes_.push_back(static_cast<char>(*byte));
      return;
    }
  }
  constexpr std::string_view kBlank = "\u2581";
  for (std::size_t i = 0; i < text.size();) {
    const bool blank = !is_special(id) && text.substr(i).starts_with(kBlank);
    bytes_.push_back(blank ? ' ' : text[i]);
    i += blank ? kBlank.size() : 1;
  }
}

std::size_t TokenTable::at(TokenId id) const {
  CHECK(to_int(id) >= 0 && static_cast<std::size_t>(to_int(id)) < size(),
        "token id outside the vocabulary");
  return static_cast<std::size_t>(to_int(id));
}

TokenType TokenTable::type(TokenId id) const {
  const std::size_t i = at(id);
  if (!vocabulary_.types.empty()) return vocabulary_.types[i];
  // Files without types: byte tokens can still be told by their form.
  return vocabulary_.kind == VocabularyKind::kSentencePiece &&
                 parse_byte_token(vocabulary_.tokens[i])
             ? TokenType::kByte
             : TokenType::kNormal;
}

const std::string& TokenTable::written(TokenId id) const {
  return vocabulary_.tokens[at(id)];
}

bool TokenTable::is_special(TokenId id) const {
  const TokenType token_type = type(id);
  return token_type == TokenType::kControl || token_type == TokenType::kUnknown;
}

bool TokenTable::is_end_of_generation(TokenId id) const {
  return ends_generation_[at(id)];
}

std::string_view TokenTable::piece(TokenId id, bool render_special) const {
  const std::size_t i = at(id);
  if (!render_special && is_special(id)) return {};
  return std::string_view(bytes_).substr(piece_begin_[i], piece_begin_[i + 1] - piece_begin_[i]);
}

std::vector<TokenId> TokenTable::tokens_of_type(TokenType wanted) const {
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i < size(); ++i) {
    const TokenId id{static_cast<std::int32_t>(i)};
    if (type(id) == wanted) ids.push_back(id);
  }
  return ids;
}

}  // namespace refrain::text
