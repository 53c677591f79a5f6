// Numbers with units as people write them on the command line; sizes are base/str.h's parse_size().
// Plain functions, any thread. Errors say what is wrong, not of which option.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace refrain::cli {

// "8192", and for tokens also "8k" (1,024 each); at most 9e15.
Result<std::int64_t> parse_integer(std::string_view text);
// "0.8"; finite.
Result<double> parse_real(std::string_view text);
// "7B", "135M", "1.5T", "12k", "8030261248": powers of 1,000, as parameters are counted. Not
// negative, whole after the unit is applied.
Result<double> parse_count(std::string_view text);
// "27GB/s", "500 MB/s": powers of 1,000, as data sheets have them; "25GiB/s" of 1,024. Bytes per
// second, not negative. Bits ("10Gb/s") are refused.
Result<double> parse_rate(std::string_view text);

}  // namespace refrain::cli
