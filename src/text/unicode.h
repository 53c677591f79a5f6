// Unicode: the little the tokenizers need of it: reading UTF-8 code point by code point without
// ever failing, and the character classes the pre-tokenizer patterns use (from ICU's tables).
// Plain functions, any thread; ICU appears in unicode.cpp only.
//
//   CodePoint c = code_point_at("né", 1);   // {U+00E9, length 2, well_formed}
//   class_of(c.value);                      // CharClass::kLetter
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace refrain::text {

struct CodePoint {
  char32_t value = 0;        // the byte itself if ill-formed
  std::uint32_t length = 0;  // bytes; 0 at the end of the text
  bool well_formed = false;
};

// The code point at `text[at]`. A byte that begins no well-formed sequence (overlong forms,
// surrogates and values above U+10FFFF included) comes alone: length 1, not well formed.
CodePoint code_point_at(std::string_view text, std::size_t at);

// Length of the longest beginning of `text` that is no complete sequence, but may become one when
// more bytes follow (1-3), or 0: "\xF0\x9F" gives 2, "\xF0\x41" and "a" give 0.
std::size_t incomplete_length(std::string_view text);

void append_utf8(char32_t code_point, std::string& out);

// Classes as regular expressions name them; each code point has exactly one.
enum class CharClass : std::uint8_t {
  kEnd,          // no character: end of the text
  kLetter,       // \p{L}
  kNumber,       // \p{N}
  kSpace,        // \s: property White_Space
  kPunctuation,  // \p{P} and the ASCII symbols $ + < = > ^ ~ |
  kOther,        // everything else: marks, symbols, controls, unassigned, ill-formed bytes
};
CharClass class_of(char32_t code_point);
// Of the character at `text[at]`; kOther if it is ill-formed, kEnd at the end.
inline CharClass class_of(const CodePoint& c) {
  if (c.length == 0) return CharClass::kEnd;
  return c.well_formed ? class_of(c.value) : CharClass::kOther;
}

}  // namespace refrain::text
