// Tokenizer: joins the parts: control tokens are found in what the server wrote, everything else
// goes to the encoder of the vocabulary's kind. Immutable; any thread.
#include "text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "text/bpe.h"
#include "text/plain_encoder.h"
#include "text/special_tokens.h"
#include "text/spm.h"
#include "text/token_table.h"

namespace refrain::text {
namespace {

TokenTrie special_trie(const TokenTable& table) {
  std::vector<std::pair<std::string, TokenId>> tokens;
  for (const TokenType type : {TokenType::kControl, TokenType::kUnknown})
    for (const TokenId id : table.tokens_of_type(type)) tokens.emplace_back(table.written(id), id);
  return TokenTrie(std::move(tokens));
}

class VocabularyTokenizer final : public Tokenizer {
 public:
  VocabularyTokenizer(std::unique_ptr<TokenTable> table, std::unique_ptr<PlainEncoder> encoder)
      : table_(std::move(table)), encoder_(std::move(encoder)), special_(special_trie(*table_)) {}

  TokenList encode(std::string_view text, const EncodeOptions& options) const override;
  EncodedPrompt encode_prompt(const Prompt& prompt) const override;

  std::string_view piece(TokenId id, bool render_special) const override {
    return table_->piece(id, render_special);
  }
  std::string decode(const TokenList& tokens, bool render_special) const override;

  std::size_t size() const override { return table_->size(); }
  bool is_control(TokenId id) const override { return table_->type(id) == TokenType::kControl; }
  bool is_end_of_generation(TokenId id) const override { return table_->is_end_of_generation(id); }
  std::optional<TokenId> find(std::string_view text) const override { return table_->find(text); }
  const Vocabulary& vocabulary() const override { return table_->vocabulary(); }

 private:
  class PromptEncoder;

  std::unique_ptr<TokenTable> table_;
  std::unique_ptr<PlainEncoder> encoder_;  // uses *table_
  TokenTrie special_;
};

// Encodes one prompt from left to right. Plain text gathers until a control token or the end,
// whichever parts it comes from; each message's first place in it is remembered, and the first
// control token since the text before that opens a turn.
//
//   tokens_: [control][ plain tokens ][control]      plain_: "text gathered since"
class VocabularyTokenizer::PromptEncoder {
 public:
  explicit PromptEncoder(const VocabularyTokenizer& owner) : owner_(owner) {}

  void add_template(std::string_view text) {
    std::size_t at = 0;
    while (const auto match = owner_.special_.find(text, at)) {
      plain_ += text.substr(at, match->begin - at);
      flush();
      if (owner_.is_end_of_generation(match->id))
        opening_ = kUnset;  // a turn without text of a message, such as a template's own
      else if (opening_ == kUnset)
        opening_ = tokens_.size();
      tokens_.push_back(match->id);
      at = match->begin + match->length;
    }
    plain_ += text.substr(at);
  }

  void add_plain(std::string_view text) { plain_ += text; }

  void add_message(std::size_t message, std::string_view text) {
    if (message >= message_begin_.size()) {
      message_begin_.resize(message + 1, kUnset);
      header_begin_.resize(message + 1, kUnset);
    }
    if (text.empty()) return;
    if (message_begin_[message] == kUnset) {
      message_begin_[message] = kPending;
      header_begin_[message] = opening_;
      pending_.push_back({message, plain_.size()});
    }
    opening_ = kUnset;
    plain_ += text;
  }

  EncodedPrompt finish(bool add_bos) {
    flush();
    const auto& bos = owner_.vocabulary().bos;
    const bool wanted = add_bos && owner_.vocabulary().add_bos && bos;
    const bool missing = wanted && (tokens_.empty() || tokens_.front() != *bos);
    if (missing) tokens_.insert(tokens_.begin(), *bos);
    for (std::size_t i = 0; i < message_begin_.size(); ++i) {
      std::size_t& begin = message_begin_[i];
      begin = begin == kUnset ? tokens_.size() : begin + (missing ? 1 : 0);
      std::size_t& header = header_begin_[i];
      header = header == kUnset ? begin : header + (missing ? 1 : 0);
    }
    return {std::move(tokens_), std::move(message_begin_), std::move(header_begin_)};
  }

 private:
  static constexpr std::size_t kUnset = static_cast<std::size_t>(-1);
  static constexpr std::size_t kPending = static_cast<std::size_t>(-2);
  struct Begin {
    std::size_t message;
    std::size_t offset;  // of its first byte in plain_
  };

  void flush() {
    const std::size_t first = tokens_.size();
    const bool only_bos = first == 0 || (first == 1 && tokens_.front() == owner_.vocabulary().bos);
    std::vector<std::size_t> ends;
    TokenSink sink(tokens_, pending_.empty() ? nullptr : &ends);
    owner_.encoder_->encode(plain_, only_bos, sink);
    for (const Begin& begin : pending_) {
      const auto holder = std::upper_bound(ends.begin(), ends.end(), begin.offset);
      message_begin_[begin.message] = first + static_cast<std::size_t>(holder - ends.begin());
    }
    pending_.clear();
    plain_.clear();
  }

  const VocabularyTokenizer& owner_;
  TokenList tokens_;
  std::string plain_;
  std::vector<Begin> pending_;
  std::vector<std::size_t> message_begin_, header_begin_;
  std::size_t opening_ = kUnset;  // index of the control token that opens the next text's turn
};

TokenList VocabularyTokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  PromptEncoder encoder(*this);
  if (options.parse_special)
    encoder.add_template(text);
  else
    encoder.add_plain(text);
  return encoder.finish(options.add_bos).tokens;
}

EncodedPrompt VocabularyTokenizer::encode_prompt(const Prompt& prompt) const {
  PromptEncoder encoder(*this);
  std::string written;  // neighbouring template parts: a marker may be written in pieces
  for (const PromptPart& part : prompt.parts) {
    if (part.is_template()) {
      written += part.text;
      continue;
    }
    CHECK(part.message >= 0, "a part is of a message or of the template");
    encoder.add_template(written);
    written.clear();
    encoder.add_message(static_cast<std::size_t>(part.message), part.text);
  }
  encoder.add_template(written);
  return encoder.finish(true);
}

std::string VocabularyTokenizer::decode(const TokenList& tokens, bool render_special) const {
  std::string text;
  bool first = vocabulary().kind == VocabularyKind::kSentencePiece && vocabulary().add_space_prefix;
  for (const TokenId id : tokens) {
    std::string_view bytes = piece(id, render_special);
    const bool special = table_->is_special(id);
    if (first && !special && bytes.starts_with(' ')) bytes.remove_prefix(1);
    // As in encoding: only BOS may stand before the artificial blank.
    first = first && special && id == vocabulary().bos;
    text += bytes;
  }
  return text;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::create(Vocabulary vocabulary) {
  ASSIGN_OR_RETURN(std::unique_ptr<TokenTable> table, TokenTable::create(std::move(vocabulary)));
  std::unique_ptr<PlainEncoder> encoder;
  if (table->vocabulary().kind == VocabularyKind::kBytePair) {
    ASSIGN_OR_RETURN(encoder, make_byte_pair_encoder(*table));
  } else {
    encoder = make_sentence_piece_encoder(*table);
  }
  return std::unique_ptr<Tokenizer>(
      std::make_unique<VocabularyTokenizer>(std::move(table), std::move(encoder)));
}

}  // namespace refrain::text
