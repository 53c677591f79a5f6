// The table of the byte-level alphabet, both ways. Any thread.
#include "text/byte_level.h"

#include <array>

#include "text/unicode.h"

namespace refrain::text {
namespace {

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

constexpr std::size_t kShiftedCount = 68;
constexpr char32_t kFirstShifted = 0x100;

struct Alphabet {
  std::array<char32_t, 256> character{};              // by byte
  std::array<std::uint8_t, kShiftedCount> shifted{};  // by character - kFirstShifted

  constexpr Alphabet() {
    std::size_t next = 0;
    for (unsigned byte = 0; byte < 256; ++byte) {
      if (stands_for_itself(byte)) {
        character[byte] = byte;
      } else {
        character[byte] = kFirstShifted + static_cast<char32_t>(next);
        shifted[next++] = static_cast<std::uint8_t>(byte);
      }
    }
  }
};
constexpr Alphabet kAlphabet;
static_assert(kAlphabet.character[0x20] == 0x120 && kAlphabet.character[0xAD] == 0x143);

}  // namespace

char32_t byte_to_character(std::uint8_t byte) {
  return kAlphabet.character[byte];
}

void append_byte_level(std::string_view written, std::string& out) {
  for (std::size_t at = 0; at < written.size();) {
    const CodePoint c = code_point_at(written, at);
    if (c.well_formed && c.value < 0x100 && stands_for_itself(c.value)) {
      out.push_back(static_cast<char>(c.value));
    } else if (c.well_formed && c.value >= kFirstShifted &&
               c.value < kFirstShifted + kShiftedCount) {
      out.push_back(static_cast<char>(kAlphabet.shifted[c.value - kFirstShifted]));
    } else {
      out.append(written.substr(at, c.length));
    }
    at += c.length;
  }
}

}  // namespace refrain::text
