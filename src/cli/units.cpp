// See units.h.
#include "cli/units.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string>

#include "base/str.h"

namespace refrain::cli {
namespace {

struct Quantity {
  double number = 0;
  std::string_view unit;
};

// A number that is finite and not negative, and what stands behind it.
Result<Quantity> parse_quantity(std::string_view text) {
  text = trim(text);
  Quantity made;
  const char* end = text.data() + text.size();
  const auto [at, fault] = std::from_chars(text.data(), end, made.number);
  if (fault != std::errc{} || !std::isfinite(made.number) || made.number < 0)
    return Error{Code::kInvalidArgument, "not a number"};
  made.unit = trim(std::string_view(at, static_cast<std::size_t>(end - at)));
  return made;
}

// The power that a letter means, "kMGT" upwards from 1; 0 if it is none. `B` counts as G.
int power_of(char letter) {
  switch (std::toupper(static_cast<unsigned char>(letter))) {
    case 'K':
      return 1;
    case 'M':
      return 2;
    case 'G':
    case 'B':
      return 3;
    case 'T':
      return 4;
    default:
      return 0;
  }
}

}  // namespace

Result<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [at, fault] = std::from_chars(text.data(), end, value);
  if (fault == std::errc{} && at == end) return value;
  if (text.find_first_of(".-") != std::string_view::npos) {
    return Error{Code::kInvalidArgument, "not a whole number"};
  }
  ASSIGN_OR_RETURN(const std::uint64_t size, parse_size(text));
  if (size > 9'000'000'000'000'000) return Error{Code::kInvalidArgument, "too large"};
  return static_cast<std::int64_t>(size);
}

Result<double> parse_real(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [at, fault] = std::from_chars(text.data(), end, value);
  if (fault != std::errc{} || at != end || !std::isfinite(value)) {
    return Error{Code::kInvalidArgument, "not a number"};
  }
  return value;
}

Result<double> parse_count(std::string_view text) {
  ASSIGN_OR_RETURN(const Quantity quantity, parse_quantity(text));
  double value = quantity.number;
  if (!quantity.unit.empty()) {
    const int power = quantity.unit.size() == 1 ? power_of(quantity.unit.front()) : 0;
    if (power == 0) return Error{Code::kInvalidArgument, "an unknown unit"};
    value *= std::pow(1000.0, power);
  }
  const double rounded = std::round(value);
  if (std::abs(value - rounded) > 1e-6 * std::max(1.0, rounded) || !std::isfinite(value))
    return Error{Code::kInvalidArgument, "not a whole number"};
  return rounded;
}

Result<double> parse_rate(std::string_view text) {
  ASSIGN_OR_RETURN(const Quantity quantity, parse_quantity(text));
  std::string_view unit = quantity.unit;
  const auto bad = [] {
    return Error{Code::kInvalidArgument, "a rate has a unit such as GB/s or MB/s"};
  };
  if (unit.size() < 3 || (!unit.ends_with("/s") && !unit.ends_with("/S"))) return bad();
  unit.remove_suffix(2);
  const char last = unit.back();
  unit.remove_suffix(1);
  if (last != 'B' && last != 'b') return bad();
  if (unit.empty()) return last == 'B' ? Result<double>(quantity.number) : Result<double>(bad());
  const bool is_binary = unit.size() == 2 && (unit[1] == 'i' || unit[1] == 'I');
  const char letter = unit.front();
  // "Gb/s" are bits; in "gb/s" nobody means them.
  const bool is_bits = last == 'b' && std::isupper(static_cast<unsigned char>(letter)) != 0;
  const int power = letter == 'B' || letter == 'b' ? 0 : power_of(letter);
  if (power == 0 || is_bits || (unit.size() != 1 && !is_binary)) return bad();
  const double value = quantity.number * std::pow(is_binary ? 1024.0 : 1000.0, power);
  return std::isfinite(value) ? Result<double>(value) : Result<double>(bad());
}

}  // namespace refrain::cli
