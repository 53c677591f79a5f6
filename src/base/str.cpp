#include "base/str.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

namespace refrain {
namespace {

// Length of the well-formed UTF-8 sequence at `text[at]`, or 0 and in `bad` the length of the
// maximal ill-formed part (Unicode 15, table 3-7).
std::size_t sequence_length(std::string_view text, std::size_t at, std::size_t& bad) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(at);
  bad = 1;
  if (lead < 0x80) return 1;
  std::size_t length = 0;
  unsigned low = 0x80, high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) length = 2;
  else if (lead >= 0xE0 && lead <= 0xEF) length = 3;
  else if (lead >= 0xF0 && lead <= 0xF4) length = 4;
  else return 0;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  for (std::size_t i = 1; i < length; ++i) {
    if (at + i >= text.size() || byte(at + i) < low || byte(at + i) > high) {
      bad = i;
      return 0;
    }
    low = 0x80;
    high = 0xBF;
  }
  return length;
}

}  // namespace

std::string format_bytes(std::uint64_t bytes) {
  static constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < kUnits.size()) {
    value /= 1024.0;
    ++unit;
  }
  std::array<char, 32> buffer{};
  const bool whole = unit == 0 || std::abs(value - std::round(value)) < 0.05;
  std::snprintf(buffer.data(), buffer.size(), whole ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return buffer.data();
}

Result<std::uint64_t> parse_size(std::string_view text) {
  const std::string_view original = text;
  text = trim(text);
  double number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto bad = [&] {
    return Error{Code::kInvalidArgument, str_cat("`", original, "` is not a size"),
                 "write a number with an optional unit, e.g. 4GiB, 512MB, 8k"};
  };
  if (fault != std::errc{} || number < 0 || !std::isfinite(number)) return bad();
  std::string unit(trim(std::string_view(end, static_cast<std::size_t>(text.data() + text.size() - end))));
  for (char& c : unit) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  int power = -1;
  if (unit.empty() || unit == "b") power = 0;
  for (int i = 1; i <= 4; ++i) {
    const char letter = "bkmgt"[i];
    if (unit == std::string{letter} || unit == std::string{letter} + "b" ||
        unit == std::string{letter} + "ib")
      power = i;
  }
  if (power < 0) return bad();
  const double value = number * std::pow(1024.0, power);
  if (value >= 9.2e18) return bad();
  return static_cast<std::uint64_t>(value);
}

std::string_view trim(std::string_view text) {
  const auto is_space = [](char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
  };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  for (;;) {
    const std::size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end == std::string_view::npos ? end : end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

bool is_valid_utf8(std::string_view text) {
  std::size_t bad = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = sequence_length(text, at, bad);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

std::string to_valid_utf8(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  std::size_t bad = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = sequence_length(text, at, bad);
    if (length == 0) {
      clean += "\xEF\xBF\xBD";
      at += bad;
    } else {
      clean.append(text.substr(at, length));
      at += length;
    }
  }
  return clean;
}

}  // namespace refrain
