// The scanners of PreTokenizer. Each *_end function gets a text and a place inside it and returns
// where the word that begins there ends. Any thread.
#include "text/pre_tokenizer.h"

#include <array>
#include <string>

#include "base/str.h"
#include "text/unicode.h"

namespace refrain::text {
namespace {

// A character with its class, as the scanners look at it.
struct Char {
  CodePoint code;
  CharClass kind = CharClass::kEnd;

  bool is(char32_t value) const { return code.well_formed && code.value == value; }
  bool is_newline() const { return is(U'\r') || is(U'\n'); }
  bool exists() const { return kind != CharClass::kEnd; }
  bool is_letter() const { return kind == CharClass::kLetter; }
  bool is_number() const { return kind == CharClass::kNumber; }
  bool is_space() const { return kind == CharClass::kSpace; }
  // [^\s\p{L}\p{N}]
  bool is_other() const { return kind == CharClass::kOther || kind == CharClass::kPunctuation; }
};

Char char_at(std::string_view text, std::size_t at) {
  const CodePoint code = code_point_at(text, at);
  return {code, class_of(code)};
}

// End of the run of characters from `at` on for which `belongs` holds.
template <typename Predicate>
std::size_t run_end(std::string_view text, std::size_t at, Predicate belongs) {
  for (Char c = char_at(text, at); c.exists() && belongs(c); c = char_at(text, at))
    at += c.code.length;
  return at;
}

constexpr auto kIsLetter = [](const Char& c) { return c.is_letter(); };
constexpr auto kIsNumber = [](const Char& c) { return c.is_number(); };
constexpr auto kIsOther = [](const Char& c) { return c.is_other(); };
constexpr auto kIsPunctuation = [](const Char& c) { return c.kind == CharClass::kPunctuation; };

enum class Case { kExact, kFolded };

// Lower case for the letters of the contractions. U+017F (long s) folds to s as well, which
// case-insensitive matching in Unicode regular expressions does too.
char32_t fold(char32_t c) {
  if (c >= U'A' && c <= U'Z') return c + (U'a' - U'A');
  return c == U'\u017F' ? U's' : c;
}

// End of 's 't 're 've 'm 'll 'd at `at`, or `at`. None is the beginning of another one.
std::size_t contraction_end(std::string_view text, std::size_t at, Case letter_case) {
  if (text[at] != '\'') return at;
  const auto letter = [&](const CodePoint& c) {
    if (!c.well_formed) return U'\0';
    return letter_case == Case::kFolded ? fold(c.value) : c.value;
  };
  const CodePoint first = code_point_at(text, at + 1);
  const char32_t a = letter(first);
  std::size_t end = at + 1 + first.length;
  if (a == U's' || a == U't' || a == U'm' || a == U'd') return end;
  if (a != U'r' && a != U'v' && a != U'l') return at;
  const CodePoint second = code_point_at(text, end);
  end += second.length;
  return letter(second) == (a == U'l' ? U'l' : U'e') ? end : at;
}

// \s+(?!\S)|\s+ at a space: the run without its last character, unless the text ends there or
// the run has only one.
//   [at ... last][last ... end) then no space
std::size_t blank_run_end(std::string_view text, std::size_t at) {
  std::size_t last = at;
  std::size_t end = at;
  for (Char c = char_at(text, end); c.is_space(); c = char_at(text, end)) {
    last = end;
    end += c.code.length;
  }
  return end == text.size() || last == at ? end : last;
}

std::size_t gpt2_word_end(std::string_view text, std::size_t at) {
  const std::size_t contraction = contraction_end(text, at, Case::kExact);
  if (contraction > at) return contraction;
  const std::size_t body = text[at] == ' ' ? at + 1 : at;  // " ?" takes the blank along
  const Char first = char_at(text, body);
  if (first.is_letter()) return run_end(text, body, kIsLetter);
  if (first.is_number()) return run_end(text, body, kIsNumber);
  if (first.is_other()) return run_end(text, body, kIsOther);
  return blank_run_end(text, at);
}

// \s*[\r\n]+ at a space: up to and with the last line break of the run of spaces, or `at`.
std::size_t line_breaks_end(std::string_view text, std::size_t at) {
  std::size_t after_break = at;
  for (Char c = char_at(text, at); c.is_space(); c = char_at(text, at)) {
    at += c.code.length;
    if (c.is_newline()) after_break = at;
  }
  return after_break;
}

// llama-bpe and qwen2; `digits_max` numbers stay together.
std::size_t llama3_word_end(std::string_view text, std::size_t at, int digits_max) {
  const std::size_t contraction = contraction_end(text, at, Case::kFolded);
  if (contraction > at) return contraction;
  const Char first = char_at(text, at);
  const std::size_t second_at = at + first.code.length;
  if (first.is_letter()) return run_end(text, second_at, kIsLetter);
  if (first.is_number()) {
    int left = digits_max - 1;
    return run_end(text, second_at, [&](const Char& c) { return c.is_number() && left-- > 0; });
  }
  const Char second = char_at(text, second_at);
  if (!first.is_newline() && second.is_letter()) return run_end(text, second_at, kIsLetter);
  if (first.is_other() || (first.is(U' ') && second.is_other())) {
    const std::size_t end = run_end(text, second_at, kIsOther);
    return run_end(text, end, [](const Char& c) { return c.is_newline(); });
  }
  const std::size_t after_breaks = line_breaks_end(text, at);
  return after_breaks > at ? after_breaks : blank_run_end(text, at);
}

bool three_digits_at(std::string_view text, std::size_t at) {
  if (text.size() - at < 3) return false;
  for (std::size_t i = at; i < at + 3; ++i)
    if (text[i] < '0' || text[i] > '9') return false;
  return true;
}

// The last two stages of `default`: numbers apart from their blank, then ASCII digits by threes
// from the left; what stands between two threes stays together.
std::size_t default_word_end(std::string_view text, std::size_t at) {
  if (text[at] == ' ' && char_at(text, at + 1).is_number()) return at + 1;
  if (!char_at(text, at).is_number()) return gpt2_word_end(text, at);
  if (three_digits_at(text, at)) return at + 3;
  return run_end(text, at, [&, place = at](const Char& c) mutable {
    const bool inside = c.is_number() && !three_digits_at(text, place);
    place += c.code.length;
    return inside;
  });
}

}  // namespace

Result<PreTokenizer> PreTokenizer::named(std::string_view name) {
  struct Known {
    std::string_view name;
    Pattern pattern;
  };
  // Several names of one pattern: models whose files say the one or the other.
  static constexpr std::array<Known, 9> kKnown = {{{"default", Pattern::kDefault},
                                                   {"gpt-2", Pattern::kGpt2},
                                                   {"gpt2", Pattern::kGpt2},
                                                   {"smollm", Pattern::kSmolLm},
                                                   {"llama-bpe", Pattern::kLlama3},
                                                   {"llama3", Pattern::kLlama3},
                                                   {"llama-v3", Pattern::kLlama3},
                                                   {"qwen2", Pattern::kQwen2},
                                                   {"deepseek-r1-qwen", Pattern::kQwen2}}};
  if (name.empty()) return PreTokenizer(Pattern::kDefault);
  std::string list;
  for (const Known& known : kKnown) {
    if (known.name == name) return PreTokenizer(known.pattern);
    list += list.empty() ? "" : ", ";
    list += known.name;
  }
  return Error{Code::kUnsupported,
               str_cat("the pre-tokenizer `", to_valid_utf8(name.substr(0, 100)),
                       "` of this model is not known here"),
               "known ones: " + list, "tokenizer.ggml.pre"};
}

bool PreTokenizer::Scanner::next(std::string_view& word) {
  if (at_ == text_.size()) return false;
  if (at_ == segment_end_) segment_end_ = owner_.segment_end(text_, at_);
  const std::size_t end = owner_.word_end(text_.substr(0, segment_end_), at_);
  word = text_.substr(at_, end - at_);
  at_ = end;
  return true;
}

std::size_t PreTokenizer::segment_end(std::string_view text, std::size_t at) const {
  const Char first = char_at(text, at);
  if (pattern_ == Pattern::kSmolLm) {
    if (first.is_number()) return at + first.code.length;
    return run_end(text, at, [](const Char& c) { return !c.is_number(); });
  }
  if (pattern_ == Pattern::kDefault) {
    if (kIsPunctuation(first)) return run_end(text, at, kIsPunctuation);
    return run_end(text, at, [](const Char& c) { return !kIsPunctuation(c); });
  }
  return text.size();
}

std::size_t PreTokenizer::word_end(std::string_view segment, std::size_t at) const {
  switch (pattern_) {
    case Pattern::kGpt2:
    case Pattern::kSmolLm:
      return gpt2_word_end(segment, at);
    case Pattern::kLlama3:
      return llama3_word_end(segment, at, 3);
    case Pattern::kQwen2:
      return llama3_word_end(segment, at, 1);
    case Pattern::kDefault:
      break;
  }
  return default_word_end(segment, at);
}

}  // namespace refrain::text
