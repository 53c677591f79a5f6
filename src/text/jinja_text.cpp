// Text with origins, and the character classes of Python's str (by ICU). Pure functions, any
// thread.
#include "text/jinja_text.h"

#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>

namespace refrain::text::jinja {

void Text::append(std::string_view bytes, std::int32_t origin) {
  if (bytes.empty()) return;
  bytes_.append(bytes);
  const auto end = static_cast<std::uint32_t>(bytes_.size());
  if (!runs_.empty() && runs_.back().origin == origin) {
    runs_.back().end = end;
  } else {
    runs_.push_back({end, origin});
  }
}

void Text::append(const Text& other, std::size_t begin, std::size_t end) {
  if (begin >= end) return;
  const auto first = std::upper_bound(other.runs_.begin(), other.runs_.end(), begin,
                                      [](std::size_t at, const Run& run) { return at < run.end; });
  std::size_t from = begin;
  for (auto run = first; run != other.runs_.end() && from < end; ++run) {
    const std::size_t to = std::min<std::size_t>(run->end, end);
    append(std::string_view(other.bytes_).substr(from, to - from), run->origin);
    from = to;
  }
}

Text Text::slice(std::size_t begin, std::size_t end) const {
  Text out;
  out.append(*this, begin, end);
  return out;
}

std::int32_t Text::origin_at(std::size_t at) const {
  const auto run = std::upper_bound(runs_.begin(), runs_.end(), at,
                                    [](std::size_t a, const Run& r) { return a < r.end; });
  return run == runs_.end() ? kTemplateOrigin : run->origin;
}

std::int32_t Text::client_origin() const {
  for (const Run& run : runs_) {
    if (run.origin != kTemplateOrigin) return run.origin;
  }
  return kTemplateOrigin;
}

Character character_at(std::string_view bytes, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char lead = byte(at);
  const Character stray{0xDC00U + lead, 1};
  if (lead < 0x80) return {lead, 1};
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || at + length > bytes.size()) return stray;
  char32_t code = lead & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0U) != 0x80U) return stray;
    code = (code << 6U) | (byte(at + i) & 0x3FU);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  if (overlong || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return stray;
  return {code, length};
}

std::size_t character_count(std::string_view bytes) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < bytes.size(); ++count) at += character_at(bytes, at).length;
  return count;
}

std::vector<std::uint32_t> character_offsets(std::string_view bytes) {
  std::vector<std::uint32_t> offsets;
  offsets.reserve(bytes.size() + 1);
  for (std::size_t at = 0; at < bytes.size(); at += character_at(bytes, at).length) {
    offsets.push_back(static_cast<std::uint32_t>(at));
  }
  offsets.push_back(static_cast<std::uint32_t>(bytes.size()));
  return offsets;
}

bool is_ascii(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

void append_utf8(std::string& out, char32_t code) {
  if (code >= 0xDC80 && code <= 0xDCFF) {
    out.push_back(static_cast<char>(code - 0xDC00));
  } else if (code < 0x80) {
    out.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out.push_back(static_cast<char>(0xC0U | (code >> 6U)));
    out.push_back(static_cast<char>(0x80U | (code & 0x3FU)));
  } else if (code < 0x10000) {
    out.push_back(static_cast<char>(0xE0U | (code >> 12U)));
    out.push_back(static_cast<char>(0x80U | ((code >> 6U) & 0x3FU)));
    out.push_back(static_cast<char>(0x80U | (code & 0x3FU)));
  } else {
    out.push_back(static_cast<char>(0xF0U | (code >> 18U)));
    out.push_back(static_cast<char>(0x80U | ((code >> 12U) & 0x3FU)));
    out.push_back(static_cast<char>(0x80U | ((code >> 6U) & 0x3FU)));
    out.push_back(static_cast<char>(0x80U | (code & 0x3FU)));
  }
}

namespace {
UChar32 icu(char32_t code) {
  return static_cast<UChar32>(code);
}
bool is_stray(char32_t code) {
  return code >= 0xDC00 && code <= 0xDCFF;
}
}  // namespace

bool is_space(char32_t c) {
  if (c < 0x80) return (c >= 9 && c <= 13) || (c >= 28 && c <= 32);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_printable(char32_t c) {
  if (c == ' ') return true;
  if (is_stray(c)) return false;
  const auto mask = U_GET_GC_MASK(icu(c));
  return (mask & (U_GC_C_MASK | U_GC_Z_MASK)) == 0;
}

bool is_alphabetic(char32_t c) {
  return (U_GET_GC_MASK(icu(c)) & U_GC_L_MASK) != 0;
}
bool is_digit(char32_t c) {
  return u_charType(icu(c)) == U_DECIMAL_DIGIT_NUMBER;
}
bool is_upper(char32_t c) {
  return u_isUUppercase(icu(c)) != 0;
}
bool is_lower(char32_t c) {
  return u_isULowercase(icu(c)) != 0;
}

std::string map_case(char32_t c, LetterCase letter_case) {
  std::string out;
  if (c < 0x80) {
    const bool small = c >= 'a' && c <= 'z';
    const bool big = c >= 'A' && c <= 'Z';
    if (letter_case == LetterCase::kLower) {
      out.push_back(static_cast<char>(big ? c + 32 : c));
    } else {
      out.push_back(static_cast<char>(small ? c - 32 : c));
    }
    return out;
  }
  if (is_stray(c)) {
    append_utf8(out, c);
    return out;
  }
  icu::UnicodeString text(icu(c));
  switch (letter_case) {
    case LetterCase::kUpper:
      text.toUpper(icu::Locale::getRoot());
      break;
    case LetterCase::kLower:
      text.toLower(icu::Locale::getRoot());
      break;
    case LetterCase::kTitle:
      text.toTitle(nullptr, icu::Locale::getRoot());
      break;
  }
  text.toUTF8String(out);
  return out;
}

}  // namespace refrain::text::jinja
