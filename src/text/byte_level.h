// Byte level: the alphabet in which byte-pair vocabularies write bytes as printable characters
// (Radford et al. 2019): printable Latin-1 bytes stand for themselves, the other 68 for U+0100 and
// following, in order: a blank is U+0120 "Ġ". Plain functions, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace refrain::text {

// The character that stands for `byte`.
char32_t byte_to_character(std::uint8_t byte);
// Bytes that `written` stands for, appended to `out`; characters outside the alphabet are taken
// as they are (tokens that were added to a vocabulary by hand).
void append_byte_level(std::string_view written, std::string& out);

}  // namespace refrain::text
