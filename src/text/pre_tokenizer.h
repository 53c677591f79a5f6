// PreTokenizer: cuts text into the words inside which a byte-pair tokenizer merges. Hand-written
// scanners that cut exactly as the models' regular expressions do, in linear time, without
// recursion and for any bytes (an ill-formed byte counts as a character that is no letter, number
// or space). Words joined give the text. Immutable; any thread.
//
//   ASSIGN_OR_RETURN(PreTokenizer cutter, PreTokenizer::named("gpt-2"));
//   PreTokenizer::Scanner scanner = cutter.scan("it's 12  o'clock");
//   while (scanner.next(word)) ...       // "it" "'s" " 12" " " " o" "'" "clock"
//
// The patterns (alternatives in order, first that matches wins):
//   gpt-2      's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   smollm     each \p{N} by itself; between them as gpt-2
//   llama-bpe  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
//               ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
//   qwen2      as llama-bpe with \p{N} instead of \p{N}{1,3}
//   default    runs of [\p{P}$+<=>^~|] by themselves; between them as gpt-2; from these words
//              \p{N}+ is cut out; from those [0-9][0-9][0-9]
#pragma once

#include <cstddef>
#include <string_view>

#include "base/result.h"

namespace refrain::text {

class PreTokenizer {
 public:
  // By the name GGUF files use (tokenizer.ggml.pre); "" is "default". Unknown names are
  // kUnsupported with the list of known ones.
  static Result<PreTokenizer> named(std::string_view name);

  // Models with this pre-tokenizer take a word that is a token as a whole without merging.
  bool whole_words_first() const { return pattern_ == Pattern::kLlama3; }

  class Scanner {
   public:
    // The next word, never empty; false at the end of the text.
    bool next(std::string_view& word);

   private:
    friend class PreTokenizer;
    Scanner(const PreTokenizer& owner, std::string_view text) : owner_(owner), text_(text) {}

    const PreTokenizer& owner_;
    std::string_view text_;
    std::size_t at_ = 0;
    std::size_t segment_end_ = 0;  // what the first stage of smollm and default cut off
  };
  // `text` must outlive the scanner, as must the pre-tokenizer.
  Scanner scan(std::string_view text) const { return {*this, text}; }

 private:
  enum class Pattern { kDefault, kGpt2, kSmolLm, kLlama3, kQwen2 };
  explicit PreTokenizer(Pattern pattern) : pattern_(pattern) {}
  std::size_t segment_end(std::string_view text, std::size_t at) const;
  std::size_t word_end(std::string_view segment, std::size_t at) const;

  Pattern pattern_;
};

}  // namespace refrain::text
