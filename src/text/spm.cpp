// SentencePiece encoder. It reads the text as it stands, taking each blank for "▁", so that places
// in the text stay true. Any thread; each call has a Pass of its own.
#include "text/spm.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "text/special_tokens.h"
#include "text/spm_merges.h"
#include "text/symbol_merger.h"
#include "text/unicode.h"

namespace refrain::text {
namespace {

constexpr std::string_view kBlank = "\u2581";
constexpr char32_t kBlankCodePoint = U'\u2581';

class SentencePieceEncoder final : public PlainEncoder {
 public:
  explicit SentencePieceEncoder(const TokenTable& table);
  void encode(std::string_view text, bool begins_prompt, TokenSink& sink) const override;

 private:
  class Pass;
  struct UserDefined {
    std::size_t length = 0;  // bytes of text
    TokenId id{};
  };
  std::optional<UserDefined> match_user_defined(std::string_view text, std::size_t at,
                                                bool blank_before) const;

  const TokenTable& table_;
  SpmMerges merges_;
  TokenTrie user_defined_;  // blanks written as "▁"
  std::array<std::optional<TokenId>, 256> byte_tokens_;
};

// One call of encode(): cuts the text into regions that no token crosses, merges each.
//
//   text:   ... emitted ... [region_begin  symbols in merger_  end) ... not read yet ...
class SentencePieceEncoder::Pass {
 public:
  Pass(const SentencePieceEncoder& owner, std::string_view text, TokenSink& sink)
      : owner_(owner), text_(text), sink_(sink), merger_(owner.merges_.table) {}

  void run(bool blank_before);

 private:
  void add_symbol(SymbolId id, std::uint32_t length);
  void finish_region();
  void emit(SymbolId id, std::size_t length);
  void emit_without_token(std::size_t length);
  std::size_t text_length(SymbolId id) const;

  const SentencePieceEncoder& owner_;
  std::string_view text_;
  TokenSink& sink_;
  SymbolMerger merger_;
  std::size_t end_ = 0;      // bytes whose tokens are in the sink
  bool in_unknown_ = false;  // the last token is the unknown one: a run of them is one token
};

SentencePieceEncoder::SentencePieceEncoder(const TokenTable& table)
    : table_(table), merges_(table) {
  std::vector<std::pair<std::string, TokenId>> user_defined;
  for (const TokenId id : table.tokens_of_type(TokenType::kUserDefined)) {
    std::string written;
    for (const char c : table.written(id)) {
      if (c == ' ')
        written += kBlank;
      else
        written += c;
    }
    user_defined.emplace_back(std::move(written), id);
  }
  user_defined_ = TokenTrie(std::move(user_defined));
  for (const TokenId id : table.tokens_of_type(TokenType::kByte))
    if (const auto byte = parse_byte_token(table.written(id))) byte_tokens_[*byte] = id;
}

std::optional<SentencePieceEncoder::UserDefined> SentencePieceEncoder::match_user_defined(
    std::string_view text, std::size_t at, bool blank_before) const {
  std::optional<UserDefined> longest;
  TokenTrie::Node node = TokenTrie::kRoot;
  const auto step = [&](char c) {
    if (c != ' ') {
      node = user_defined_.child(node, c);
      return;
    }
    for (const char part : kBlank)
      if (node != TokenTrie::kNone) node = user_defined_.child(node, part);
  };
  const auto note = [&](std::size_t length) {
    if (node == TokenTrie::kNone) return;
    if (const auto id = user_defined_.token(node)) longest = UserDefined{length, *id};
  };
  if (blank_before) {
    step(' ');
    note(0);
  }
  for (std::size_t i = at; i < text.size() && node != TokenTrie::kNone; ++i) {
    step(text[i]);
    note(i + 1 - at);
  }
  return longest;
}

void SentencePieceEncoder::encode(std::string_view text, bool begins_prompt,
                                  TokenSink& sink) const {
  if (text.empty()) return;
  Pass(*this, text, sink).run(begins_prompt && table_.vocabulary().add_space_prefix);
}

void SentencePieceEncoder::Pass::run(bool blank_before) {
  for (std::size_t at = 0; at < text_.size() || blank_before;) {
    if (const auto match = owner_.match_user_defined(text_, at, blank_before)) {
      finish_region();
      at += match->length;
      end_ = at;
      in_unknown_ = false;
      sink_.add(match->id, end_);
    } else if (blank_before) {
      add_symbol(owner_.merges_.chars.find(kBlankCodePoint), 0);
    } else {
      const CodePoint c = code_point_at(text_, at);
      const char32_t value = c.value == U' ' ? kBlankCodePoint : c.value;
      add_symbol(c.well_formed ? owner_.merges_.chars.find(value) : kNoSymbol, c.length);
      at += c.length;
    }
    blank_before = false;
  }
  finish_region();
}

void SentencePieceEncoder::Pass::add_symbol(SymbolId id, std::uint32_t length) {
  const Merge* merge = merger_.empty() ? nullptr : owner_.merges_.table.find(merger_.last_id(), id);
  if (merge == nullptr || merger_.full()) {
    finish_region();
    merge = nullptr;
  }
  merger_.add(id, length, merge);
}

void SentencePieceEncoder::Pass::finish_region() {
  merger_.merge();
  merger_.for_each([&](SymbolId id, std::uint32_t length) { emit(id, length); });
  merger_.clear();
}

void SentencePieceEncoder::Pass::emit(SymbolId id, std::size_t length) {
  std::vector<std::pair<SymbolId, std::size_t>> left_to_do = {{id, length}};
  while (!left_to_do.empty()) {
    const auto [symbol, bytes] = left_to_do.back();
    left_to_do.pop_back();
    const auto halves = owner_.merges_.unused_halves.find(symbol);
    if (halves != owner_.merges_.unused_halves.end()) {
      const auto [left, right] = halves->second;
      const std::size_t left_bytes = std::min(text_length(left), bytes);
      left_to_do.emplace_back(right, bytes - left_bytes);
      left_to_do.emplace_back(left, left_bytes);
    } else if (symbol < owner_.table_.size()) {
      in_unknown_ = false;
      end_ += bytes;
      sink_.add(TokenId{static_cast<std::int32_t>(symbol)}, end_);
    } else {
      emit_without_token(bytes);
    }
  }
}

// Bytes that `id` takes from the place end_ on: blanks are shorter in the text than in tokens.
std::size_t SentencePieceEncoder::Pass::text_length(SymbolId id) const {
  if (id >= owner_.table_.size()) return code_point_at(text_, end_).length;
  const std::string_view written = owner_.table_.written(TokenId{static_cast<std::int32_t>(id)});
  std::size_t at = end_;
  CodePoint c;
  for (std::size_t i = 0; i < written.size(); i += c.length) {
    c = code_point_at(written, i);
    at += code_point_at(text_, at).length;
  }
  return at - end_;
}

void SentencePieceEncoder::Pass::emit_without_token(std::size_t length) {
  const std::string_view bytes = text_.substr(end_, length);
  const bool has_bytes = std::all_of(bytes.begin(), bytes.end(), [&](char c) {
    return owner_.byte_tokens_[static_cast<unsigned char>(c)].has_value();
  });
  if (has_bytes) {
    in_unknown_ = false;
    for (const char c : bytes)
      sink_.add(*owner_.byte_tokens_[static_cast<unsigned char>(c)], ++end_);
    return;
  }
  end_ += length;
  const auto unknown = owner_.table_.vocabulary().unknown;
  if (unknown && !in_unknown_) sink_.add(*unknown, end_);
  in_unknown_ = unknown.has_value();
}

}  // namespace

std::unique_ptr<PlainEncoder> make_sentence_piece_encoder(const TokenTable& table) {
  return std::make_unique<SentencePieceEncoder>(table);
}

}  // namespace refrain::text
