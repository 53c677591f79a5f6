// tokenizer.ggml.* -> text::Vocabulary. Runs on the loading thread.
#include "model/vocabulary_reader.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/str.h"
#include "model/gguf_check.h"

namespace refrain::model {
namespace {

using text::TokenType;
using text::VocabularyKind;

// Tokens that end a turn, for files that do not state tokenizer.ggml.eot_token_id.
constexpr std::array<std::string_view, 4> kTurnEnds = {"<|eot_id|>", "<|im_end|>", "<end_of_turn>",
                                                       "<|end|>"};

// Pre-tokenizers of Llama 3, whose older files leave out that a BOS token is wanted.
constexpr std::array<std::string_view, 3> kLlama3 = {"llama-bpe", "llama3", "llama-v3"};

class VocabularyReader {
 public:
  VocabularyReader(const GgufFile& file, std::uint32_t size) : file_(file), size_(size) {}

  Result<text::Vocabulary> read() {
    RETURN_IF_ERROR(read_kind());
    RETURN_IF_ERROR(read_tokens());
    RETURN_IF_ERROR(read_types());
    if (vocabulary_.kind == VocabularyKind::kSentencePiece) {
      RETURN_IF_ERROR(read_scores());
    } else {
      RETURN_IF_ERROR(read_merges());
    }
    ASSIGN_OR_RETURN(vocabulary_.bos, read_id("tokenizer.ggml.bos_token_id"));
    ASSIGN_OR_RETURN(vocabulary_.eos, read_id("tokenizer.ggml.eos_token_id"));
    ASSIGN_OR_RETURN(vocabulary_.eot, read_id("tokenizer.ggml.eot_token_id"));
    ASSIGN_OR_RETURN(vocabulary_.unknown, read_id("tokenizer.ggml.unknown_token_id"));
    ASSIGN_OR_RETURN(vocabulary_.padding, read_id("tokenizer.ggml.padding_token_id"));
    if (!vocabulary_.eot) vocabulary_.eot = find_turn_end();
    RETURN_IF_ERROR(read_flags());
    return std::move(vocabulary_);
  }

 private:
  Error invalid(std::string_view key, std::string_view what) const {
    return Error{Code::kInvalidArgument,
                 str_cat("`", to_valid_utf8(file_.path()), "`: ", key, ": ", what),
                 "the file was written wrongly; convert the model again", std::string(key)};
  }

  Result<void> read_kind() {
    constexpr std::string_view kKey = "tokenizer.ggml.model";
    ASSIGN_OR_RETURN(const auto kind, file_.get_text(kKey));
    if (!kind) return invalid(kKey, "is missing");
    if (*kind == "gpt2") {
      vocabulary_.kind = VocabularyKind::kBytePair;
    } else if (*kind == "llama") {
      vocabulary_.kind = VocabularyKind::kSentencePiece;
    } else {
      Error error = invalid(kKey, str_cat("tokenizer `", printable(*kind), "` is not supported"));
      error.code = Code::kUnsupported;
      error.hint = "supported are gpt2 (byte-level BPE) and llama (SentencePiece)";
      return error;
    }
    ASSIGN_OR_RETURN(const auto pre, file_.get_text("tokenizer.ggml.pre"));
    vocabulary_.pre_tokenizer = pre.value_or("");
    return {};
  }

  Result<void> read_tokens() {
    constexpr std::string_view kKey = "tokenizer.ggml.tokens";
    ASSIGN_OR_RETURN(auto tokens, file_.get_text_list(kKey));
    if (!tokens) return invalid(kKey, "is missing");
    if (tokens->size() != size_)
      return invalid(kKey, str_cat("lists ", tokens->size(), " tokens, the token embedding has ",
                                   size_, " rows"));
    vocabulary_.tokens = std::move(*tokens);
    return {};
  }

  Result<void> check_length(std::string_view key, std::size_t length) const {
    if (length == size_) return {};
    return invalid(key, str_cat("has ", length, " entries for ", size_, " tokens"));
  }

  Result<void> read_types() {
    constexpr std::string_view kKey = "tokenizer.ggml.token_type";
    ASSIGN_OR_RETURN(const auto types, file_.get_int_list(kKey));
    if (!types) return {};
    RETURN_IF_ERROR(check_length(kKey, types->size()));
    vocabulary_.types.reserve(types->size());
    for (std::size_t i = 0; i < types->size(); ++i) {
      const std::int64_t type = (*types)[i];
      if (type < static_cast<int>(TokenType::kNormal) || type > static_cast<int>(TokenType::kByte))
        return invalid(kKey, str_cat("token ", i, " has type ", type, "; 1 to 6 exist"));
      vocabulary_.types.push_back(static_cast<TokenType>(type));
    }
    return {};
  }

  Result<void> read_scores() {
    constexpr std::string_view kKey = "tokenizer.ggml.scores";
    ASSIGN_OR_RETURN(auto scores, file_.get_real_list(kKey));
    if (!scores) return invalid(kKey, "is missing");
    RETURN_IF_ERROR(check_length(kKey, scores->size()));
    for (std::size_t i = 0; i < scores->size(); ++i)
      if (!std::isfinite((*scores)[i]))
        return invalid(kKey, str_cat("entry ", i, " is not finite"));
    vocabulary_.scores = std::move(*scores);
    return {};
  }

  Result<void> read_merges() {
    constexpr std::string_view kKey = "tokenizer.ggml.merges";
    ASSIGN_OR_RETURN(auto merges, file_.get_text_list(kKey));
    if (!merges) return invalid(kKey, "is missing");
    for (std::size_t i = 0; i < merges->size(); ++i) {
      const std::string& merge = (*merges)[i];
      const std::size_t space = merge.find(' ', 1);
      if (merge.size() < 3 || space == std::string::npos || space + 1 == merge.size())
        return invalid(kKey, str_cat("entry ", i, " is not two symbols with a space between"));
    }
    vocabulary_.merges = std::move(*merges);
    return {};
  }

  Result<std::optional<TokenId>> read_id(std::string_view key) const {
    ASSIGN_OR_RETURN(const auto id, file_.get_uint(key));
    if (!id) return std::optional<TokenId>();
    if (*id >= size_) return invalid(key, str_cat(*id, " is not below ", size_));
    return std::optional(TokenId{static_cast<std::int32_t>(*id)});
  }

  // A control token with one of the known names: text that a user could also write does not count.
  std::optional<TokenId> find_turn_end() const {
    for (const std::string_view name : kTurnEnds) {
      const auto at = std::find(vocabulary_.tokens.begin(), vocabulary_.tokens.end(), name);
      if (at == vocabulary_.tokens.end()) continue;
      const auto index = static_cast<std::size_t>(at - vocabulary_.tokens.begin());
      if (!vocabulary_.types.empty() && vocabulary_.types[index] == TokenType::kControl)
        return TokenId{static_cast<std::int32_t>(index)};
    }
    return std::nullopt;
  }

  Result<void> read_flags() {
    const bool pieces = vocabulary_.kind == VocabularyKind::kSentencePiece;
    const bool llama3 =
        std::find(kLlama3.begin(), kLlama3.end(), vocabulary_.pre_tokenizer) != kLlama3.end();
    ASSIGN_OR_RETURN(const auto bos, file_.get_bool("tokenizer.ggml.add_bos_token"));
    ASSIGN_OR_RETURN(const auto eos, file_.get_bool("tokenizer.ggml.add_eos_token"));
    ASSIGN_OR_RETURN(const auto space, file_.get_bool("tokenizer.ggml.add_space_prefix"));
    vocabulary_.add_bos = bos.value_or(pieces || llama3) && vocabulary_.bos.has_value();
    vocabulary_.add_eos = eos.value_or(false) && vocabulary_.eos.has_value();
    vocabulary_.add_space_prefix = space.value_or(pieces);
    return {};
  }

  const GgufFile& file_;
  const std::size_t size_;
  text::Vocabulary vocabulary_;
};

}  // namespace

Result<text::Vocabulary> read_vocabulary(const GgufFile& file, std::uint32_t vocabulary_size) {
  return VocabularyReader(file, vocabulary_size).read();
}

}  // namespace refrain::model
