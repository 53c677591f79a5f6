// Text: the string of the template interpreter. It remembers for every byte who wrote it (its
// origin: the template, or the message with an index), through concatenation, slicing and all
// filters. Plain data; any thread.
//
//   bytes  "<|im_start|>user\nHi"      runs  [end 17, template] [end 19, message 0]
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/prompt.h"

namespace refrain::text::jinja {

inline constexpr std::int32_t kTemplateOrigin = PromptPart::kTemplate;

// Bytes [end of the previous run, end) come from `origin`. Neighbouring runs differ in origin.
struct Run {
  std::uint32_t end;
  std::int32_t origin;
};

class Text {
 public:
  Text() = default;
  explicit Text(std::string_view bytes, std::int32_t origin = kTemplateOrigin) {
    append(bytes, origin);
  }

  const std::string& bytes() const { return bytes_; }
  const std::vector<Run>& runs() const { return runs_; }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }

  void append(std::string_view bytes, std::int32_t origin);
  void append(const Text& other) { append(other, 0, other.size()); }
  // Appends bytes [begin, end) of `other`; 0 <= begin <= end <= other.size().
  void append(const Text& other, std::size_t begin, std::size_t end);
  Text slice(std::size_t begin, std::size_t end) const;

  // Who wrote byte `at` (< size()).
  std::int32_t origin_at(std::size_t at) const;
  // Origin of the first byte that a client wrote, else kTemplateOrigin.
  std::int32_t client_origin() const;

 private:
  std::string bytes_;
  std::vector<Run> runs_;
};

// Characters as Python counts them: one per code point; each byte that is not part of a
// well-formed UTF-8 sequence counts as one character of its own.
struct Character {
  char32_t code_point;  // 0xDC00 + byte for a stray byte
  std::size_t length;   // bytes, 1-4
};
Character character_at(std::string_view bytes, std::size_t at);
std::size_t character_count(std::string_view bytes);
// Byte offsets of all characters plus the end: [count + 1].
std::vector<std::uint32_t> character_offsets(std::string_view bytes);
bool is_ascii(std::string_view bytes);
// UTF-8 of a code point; a stray byte (0xDC80..0xDCFF) becomes that byte again.
void append_utf8(std::string& out, char32_t code_point);

bool is_space(char32_t code_point);       // str.isspace of Python
bool is_printable(char32_t code_point);   // str.isprintable
bool is_alphabetic(char32_t code_point);  // str.isalpha
bool is_digit(char32_t code_point);       // str.isdigit, decimal digits only
bool is_upper(char32_t code_point);
bool is_lower(char32_t code_point);

enum class LetterCase { kUpper, kLower, kTitle };
// Full case mapping of one character (may give several code points, e.g. "ß" -> "SS").
std::string map_case(char32_t code_point, LetterCase letter_case);

}  // namespace refrain::text::jinja
