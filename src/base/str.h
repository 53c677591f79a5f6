// Small text helpers shared by all modules. Plain functions, any thread.
#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace refrain {

// Joins anything printable: str_cat("got ", 3, " of ", 4).
template <typename... Parts>
std::string str_cat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

// "1.5 GiB"; binary units.
std::string format_bytes(std::uint64_t bytes);
// "4GiB", "512MB", "8k", "4096": KB/KiB/k = 1024 and so on (GB and GiB both mean 2^30).
Result<std::uint64_t> parse_size(std::string_view text);

std::string_view trim(std::string_view text);
std::vector<std::string_view> split(std::string_view text, char separator);

// True if `text` is well-formed UTF-8 (no overlong forms, surrogates, or > U+10FFFF).
bool is_valid_utf8(std::string_view text);
// Replaces each maximal ill-formed part by U+FFFD; for log lines and error messages.
std::string to_valid_utf8(std::string_view text);

}  // namespace refrain
