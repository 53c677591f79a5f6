// Numbers with units.
#include "cli/units.h"

#include <gtest/gtest.h>

namespace refrain::cli {
namespace {

TEST(Units, counts_are_decimal) {
  EXPECT_EQ(parse_count("7B").value(), 7e9);
  EXPECT_EQ(parse_count("1.5b").value(), 1.5e9);
  EXPECT_EQ(parse_count("135M").value(), 135e6);
  EXPECT_EQ(parse_count("134.515008M").value(), 134515008);
  EXPECT_EQ(parse_count("2 T").value(), 2e12);
  EXPECT_EQ(parse_count("12k").value(), 12000);
  EXPECT_EQ(parse_count("8030261248").value(), 8030261248.0);
  EXPECT_EQ(parse_count("7G").value(), 7e9);
  for (const char* bad :
       {"", " ", "B", "7X", "7BB", "7 billion", "-7B", "nan", "inf", "1e999", "0.5", "7,5B", "0x7"})
    EXPECT_FALSE(parse_count(bad).ok()) << bad;
}

TEST(Units, rates_are_decimal_unless_they_say_otherwise_and_never_bits) {
  EXPECT_EQ(parse_rate("27GB/s").value(), 27e9);
  EXPECT_EQ(parse_rate("27 gb/s").value(), 27e9);
  EXPECT_EQ(parse_rate("0.5MB/s").value(), 5e5);
  EXPECT_EQ(parse_rate("25GiB/s").value(), 25.0 * (1ULL << 30U));
  EXPECT_EQ(parse_rate("3TB/s").value(), 3e12);
  EXPECT_EQ(parse_rate("100B/s").value(), 100);
  for (const char* bad : {"", "27", "27GB", "27GB/h", "27Gb/s", "GB/s", "-1GB/s", "1XB/s", "1GBB/s",
                          "1BB/s", "nanGB/s", "1e308TB/s", "27/s", "27iB/s", "1b/s", "27GB/s/s"})
    EXPECT_FALSE(parse_rate(bad).ok()) << bad;
}

TEST(Units, token_counts_are_binary_and_whole) {
  EXPECT_EQ(parse_integer("8k").value(), 8192);
  EXPECT_EQ(parse_integer("-5").value(), -5);
  for (const char* bad : {"", "8.5", "8.5k", "k", "99999999999999999999"})
    EXPECT_FALSE(parse_integer(bad).ok()) << bad;
}

}  // namespace
}  // namespace refrain::cli
