// Tokenizer: text to token ids and back, from a GGUF vocabulary. Two kinds behind one interface:
// byte-level BPE and SentencePiece-style SPM with byte fallback. Linear time on any input and no
// recursion. Immutable after create(); any thread.
//
//   ASSIGN_OR_RETURN(auto tokenizer, Tokenizer::create(vocabulary));
//   TokenList ids = tokenizer->encode("Hello", {.add_bos = true});
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"
#include "text/prompt.h"
#include "text/vocabulary.h"

namespace refrain::text {

struct EncodeOptions {
  bool add_bos = false;         // prepend BOS if the vocabulary asks for it (add_bos) and none is there
  bool parse_special = false;   // control tokens written out in `text` become those tokens
};

class Tokenizer {
 public:
  // Fails with kUnsupported (unknown model or pre-tokenizer, with the list of known ones) or
  // kInvalidArgument (inconsistent vocabulary). Takes the vocabulary over.
  static Result<std::unique_ptr<Tokenizer>> create(Vocabulary vocabulary);
  virtual ~Tokenizer() = default;

  // Any bytes are accepted; ill-formed UTF-8 is tokenized byte by byte.
  virtual TokenList encode(std::string_view text, const EncodeOptions& options) const = 0;
  // Adjacent plain text of different parts is tokenized jointly, as if it were one string; only
  // template parts may yield control tokens. Adds BOS if the vocabulary asks for it and the
  // prompt does not begin with it already: exactly one BOS.
  virtual EncodedPrompt encode_prompt(const Prompt& prompt) const = 0;

  // Raw bytes of one token as they appear in output (byte-level decoding done, SPM "▁" -> " ").
  // Control tokens give their written form if `render_special`, else "". `id` must be in range.
  virtual std::string_view piece(TokenId id, bool render_special = false) const = 0;
  // Bytes of a whole list. For SPM with add_space_prefix the artificial first blank is dropped.
  virtual std::string decode(const TokenList& tokens, bool render_special = false) const = 0;

  virtual std::size_t size() const = 0;
  virtual bool is_control(TokenId id) const = 0;
  // End of generation: EOS, EOT and the known end markers (<|im_end|>, <|eot_id|>, <end_of_turn> ...).
  virtual bool is_end_of_generation(TokenId id) const = 0;
  virtual std::optional<TokenId> find(std::string_view token_text) const = 0;  // exact written form
  virtual const Vocabulary& vocabulary() const = 0;
};

}  // namespace refrain::text
