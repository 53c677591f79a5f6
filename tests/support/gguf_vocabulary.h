// Reads the vocabulary of a GGUF file for support programs. One thread.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"
#include "model/gguf_file.h"
#include "text/vocabulary.h"

namespace refrain::test_support {

inline Result<std::optional<TokenId>> get_token_id(const model::GgufFile& file, const char* key) {
  ASSIGN_OR_RETURN(const auto value, file.get_uint(key));
  if (!value) return std::optional<TokenId>{};
  return std::optional(TokenId{static_cast<std::int32_t>(*value)});
}

inline Result<text::Vocabulary> read_vocabulary(const std::string& path) {
  ASSIGN_OR_RETURN(const auto file, model::GgufFile::open(path));
  text::Vocabulary v;
  ASSIGN_OR_RETURN(const auto kind, file->get_text("tokenizer.ggml.model"));
  v.kind = kind == "llama" ? text::VocabularyKind::kSentencePiece : text::VocabularyKind::kBytePair;
  ASSIGN_OR_RETURN(auto pre, file->get_text("tokenizer.ggml.pre"));
  v.pre_tokenizer = pre.value_or("");
  ASSIGN_OR_RETURN(auto tokens, file->get_text_list("tokenizer.ggml.tokens"));
  if (tokens) v.tokens = std::move(*tokens);
  ASSIGN_OR_RETURN(const auto types, file->get_int_list("tokenizer.ggml.token_type"));
  if (types)
    for (const std::int64_t type : *types) v.types.push_back(static_cast<text::TokenType>(type));
  ASSIGN_OR_RETURN(auto scores, file->get_real_list("tokenizer.ggml.scores"));
  if (scores) v.scores = std::move(*scores);
  ASSIGN_OR_RETURN(auto merges, file->get_text_list("tokenizer.ggml.merges"));
  if (merges) v.merges = std::move(*merges);
  ASSIGN_OR_RETURN(v.bos, get_token_id(*file, "tokenizer.ggml.bos_token_id"));
  ASSIGN_OR_RETURN(v.eos, get_token_id(*file, "tokenizer.ggml.eos_token_id"));
  ASSIGN_OR_RETURN(v.unknown, get_token_id(*file, "tokenizer.ggml.unknown_token_id"));
  ASSIGN_OR_RETURN(const auto add_bos, file->get_bool("tokenizer.ggml.add_bos_token"));
  v.add_bos = add_bos.value_or(false);
  ASSIGN_OR_RETURN(const auto prefix, file->get_bool("tokenizer.ggml.add_space_prefix"));
  v.add_space_prefix = prefix.value_or(v.kind == text::VocabularyKind::kSentencePiece);
  return v;
}

}  // namespace refrain::test_support
