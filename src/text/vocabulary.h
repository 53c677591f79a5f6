// Vocabulary: the tokens of a model as its GGUF file states them (keys tokenizer.ggml.*).
// Plain data, filled by model/, read by text/. Immutable after load; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"

namespace refrain::text {

enum class VocabularyKind { kBytePair, kSentencePiece };  // tokenizer.ggml.model = gpt2 | llama

enum class TokenType : std::uint8_t {  // values of tokenizer.ggml.token_type
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

struct Vocabulary {
  VocabularyKind kind = VocabularyKind::kBytePair;
  std::string pre_tokenizer;           // tokenizer.ggml.pre, e.g. "smollm"; "" = default
  std::vector<std::string> tokens;     // as stored in the file, [vocab_size]
  std::vector<TokenType> types;        // [vocab_size]; empty = all normal
  std::vector<float> scores;           // [vocab_size] for SentencePiece; else empty
  std::vector<std::string> merges;     // "left right" in rank order for byte-pair; else empty
  std::optional<TokenId> bos, eos, eot, unknown, padding;
  bool add_bos = false;
  bool add_eos = false;
  bool add_space_prefix = false;
};

}  // namespace refrain::text
