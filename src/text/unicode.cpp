// UTF-8 after table 3-7 of the Unicode Standard; classes from ICU. Any thread.
#include "text/unicode.h"

#include <unicode/uchar.h>

#include <array>

namespace refrain::text {
namespace {

// What may follow a lead byte: number of bytes in all and the range of the second one.
struct Lead {
  std::uint8_t length = 0;  // 0: no lead byte
  std::uint8_t low = 0x80;
  std::uint8_t high = 0xBF;
};

constexpr Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1};
  if (byte >= 0xC2 && byte <= 0xDF) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  if (byte >= 0xF1 && byte <= 0xF3) return {4};
  return {0};
}

// Bytes at the beginning of `text` that fit a well-formed sequence of `lead.length` bytes.
std::size_t fitting_length(std::string_view text, const Lead& lead) {
  std::size_t n = 1;
  for (; n < lead.length && n < text.size(); ++n) {
    const auto byte = static_cast<unsigned char>(text[n]);
    const unsigned low = n == 1 ? lead.low : 0x80;
    const unsigned high = n == 1 ? lead.high : 0xBF;
    if (byte < low || byte > high) break;
  }
  return n;
}

CharClass class_from_icu(char32_t code_point) {
  const auto type = u_charType(static_cast<UChar32>(code_point));
  const std::uint32_t mask = U_MASK(type);
  if ((mask & U_GC_L_MASK) != 0) return CharClass::kLetter;
  if ((mask & U_GC_N_MASK) != 0) return CharClass::kNumber;
  if ((mask & U_GC_P_MASK) != 0) return CharClass::kPunctuation;
  if ((mask & (U_GC_Z_MASK | U_GC_CC_MASK)) != 0 &&
      u_isUWhiteSpace(static_cast<UChar32>(code_point)))
    return CharClass::kSpace;
  constexpr std::u32string_view kSymbols = U"$+<=>^~|";
  return kSymbols.find(code_point) != std::u32string_view::npos ? CharClass::kPunctuation
                                                                : CharClass::kOther;
}

std::array<CharClass, 256> make_latin_classes() {
  std::array<CharClass, 256> classes{};
  for (char32_t c = 0; c < classes.size(); ++c) classes[c] = class_from_icu(c);
  return classes;
}

}  // namespace

CodePoint code_point_at(std::string_view text, std::size_t at) {
  if (at >= text.size()) return {};
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return {first, 1, true};
  const Lead lead = lead_of(first);
  text.remove_prefix(at);
  if (lead.length == 0 || fitting_length(text, lead) < lead.length) return {first, 1, false};
  char32_t value = first & (0xFFU >> (lead.length + 1U));
  for (std::size_t i = 1; i < lead.length; ++i)
    value = (value << 6U) | (static_cast<unsigned char>(text[i]) & 0x3FU);
  return {value, lead.length, true};
}

std::size_t incomplete_length(std::string_view text) {
  if (text.empty()) return 0;
  const Lead lead = lead_of(static_cast<unsigned char>(text[0]));
  if (lead.length < 2) return 0;
  const std::size_t fitting = fitting_length(text, lead);
  return fitting == text.size() && fitting < lead.length ? fitting : 0;
}

void append_utf8(char32_t code_point, std::string& out) {
  const auto put = [&](unsigned byte) { out.push_back(static_cast<char>(byte)); };
  const auto c = static_cast<unsigned>(code_point);
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0U | (c >> 6U));
    put(0x80U | (c & 0x3FU));
  } else if (c < 0x10000) {
    put(0xE0U | (c >> 12U));
    put(0x80U | ((c >> 6U) & 0x3FU));
    put(0x80U | (c & 0x3FU));
  } else {
    put(0xF0U | (c >> 18U));
    put(0x80U | ((c >> 12U) & 0x3FU));
    put(0x80U | ((c >> 6U) & 0x3FU));
    put(0x80U | (c & 0x3FU));
  }
}

CharClass class_of(char32_t code_point) {
  static const std::array<CharClass, 256> kLatin = make_latin_classes();
  return code_point < kLatin.size() ? kLatin[code_point] : class_from_icu(code_point);
}

}  // namespace refrain::text
