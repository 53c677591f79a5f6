// Stored rows of keys and values: what rounding does, that a row's bytes depend on the row alone,
// copies, and the bytes a token takes.
#include "kernels/kv_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "base/rng.h"
#include "kernels/cpu_kernels.h"
#include "support/plain_spread.h"
#include "support/remainders.h"

namespace refrain::kernels {
namespace {

// What storing takes from the values is another test's business.
void store_kv_rows(const KvLayout& layout, std::byte* kv, const std::int64_t* slots,
                   std::size_t count, const float* keys, const float* values) {
  const Remainders remainders(layout, count);
  cpu_kernels(best_instruction_set())
      .store_kv_rows(layout, kv, 0, slots, count, keys, values, remainders.rows.data());
}

constexpr KvFormat kFormats[] = {KvFormat::kF16, KvFormat::kQ8, KvFormat::kQ8Q4, KvFormat::kQ4};

struct Dims {
  std::uint32_t heads, key, value;
};
constexpr Dims kDims[] = {{3, 64, 64}, {1, 256, 256}, {2, 80, 48}, {5, 7, 33}, {1, 1, 1}};

float random_value(Rng& rng) {
  // Magnitudes from subnormal float16 to beyond its largest.
  const double size = std::ldexp(1.0 + static_cast<double>(rng.below(1U << 23)) / (1 << 23),
                                 static_cast<int>(rng.below(44)) - 27);
  return static_cast<float>(rng.below(2) == 0 ? size : -size);
}

std::vector<float> random_rows(std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<float> rows(count);
  for (float& x : rows) x = random_value(rng);
  return rows;
}

struct Layer {
  KvLayout layout;
  std::vector<std::byte> bytes;
  Layer(KvFormat format, const Dims& dims, std::size_t tiles)
      : layout(make_kv_layout(format, dims.heads, dims.key, dims.value, tiles)),
        bytes(layout.layer_bytes, std::byte{0x11}) {}
};

TEST(KvRows, EveryInstructionSetWritesTheSameBytes) {
  for (const KvFormat format : kFormats) {
    for (const Dims& dims : kDims) {
      std::vector<float> keys = random_rows(40 * dims.heads * dims.key, 1);
      std::vector<float> values = random_rows(40 * dims.heads * dims.value, 2);
      keys[0] = std::numeric_limits<float>::quiet_NaN();
      values[0] = -std::numeric_limits<float>::infinity();
      keys.back() = 1e-42F;
      std::vector<std::int64_t> slots(40);
      std::iota(slots.begin(), slots.end(), 5);
      std::vector<std::vector<std::byte>> written;
      std::vector<std::vector<std::uint16_t>> taken;
      for (const InstructionSet set : available_instruction_sets()) {
        Layer layer(format, dims, 3);
        const Remainders remainders(layer.layout, 40);
        cpu_kernels(set).store_kv_rows(layer.layout, layer.bytes.data(), 0, slots.data(), 40,
                                       keys.data(), values.data(), remainders.rows.data());
        written.push_back(layer.bytes);
        taken.push_back(remainders.numbers);
        EXPECT_EQ(written.back(), written.front()) << kv_format_name(format) << dims.key;
        EXPECT_EQ(taken.back(), taken.front()) << kv_format_name(format) << dims.key;
      }
    }
  }
}

double squared_error(const std::vector<double>& wanted, const std::vector<double>& got) {
  double sum = 0.0;
  for (std::size_t d = 0; d < got.size(); ++d) sum += (wanted[d] - got[d]) * (wanted[d] - got[d]);
  return sum;
}

// 4 bits with the scale that reaches the largest value: what a fitted scale must not fall behind.
std::vector<double> rounded_to_levels(const std::vector<double>& row) {
  const double scale = largest_magnitude(row) / 63.0;
  std::vector<double> result;
  for (const double x : row) {
    double best = kQ4Levels[0] * scale;
    for (const std::int8_t level : kQ4Levels) {
      if (std::fabs(level * scale - x) < std::fabs(best - x)) best = level * scale;
    }
    result.push_back(best);
  }
  return result;
}

void expect_rounded(KvSide side, const float* wanted, const std::vector<float>& got,
                    std::uint32_t block) {
  const auto dim = static_cast<std::uint32_t>(got.size());
  if (side == KvSide::kF16) {
    for (std::size_t d = 0; d < dim; ++d) {
      const double error = std::fabs(double{got[d]} - wanted[d]);
      if (std::fabs(wanted[d]) >= 65520.0F) {
        EXPECT_TRUE(std::isinf(got[d]));
      } else {
        EXPECT_LE(error, std::max(std::fabs(double{wanted[d]}) * 0x1p-11, 0x1p-25));
      }
    }
    return;
  }
  const std::vector<double> spread_wanted =
      plain_spread(std::vector<float>(wanted, wanted + dim), block);
  const double most = largest_magnitude(spread_wanted);
  if (side == KvSide::kQ8) {
    for (std::size_t d = 0; d < dim; ++d) {
      EXPECT_LE(std::fabs(double{got[d]} - wanted[d]), most / 127.0 * 0.5001);
    }
    return;
  }
  const double plain = squared_error(spread_wanted, rounded_to_levels(spread_wanted));
  EXPECT_LE(squared_error(spread_wanted, plain_spread(got, block)),
            1.00001 * plain + most * most * 0x1p-40);
}

TEST(KvRows, ARowIsReadBackWithinTheRoundingOfItsFormat) {
  for (const KvFormat format : kFormats) {
    for (const Dims& dims : kDims) {
      const std::vector<float> keys = random_rows(20 * dims.heads * dims.key, 3);
      const std::vector<float> values = random_rows(20 * dims.heads * dims.value, 4);
      std::vector<std::int64_t> slots;
      slots.reserve(20);
      for (std::int64_t i = 0; i < 20; ++i) slots.push_back((i * 7 + 3) % 32);
      Layer layer(format, dims, 2);
      const KvLayout& layout = layer.layout;
      store_kv_rows(layout, layer.bytes.data(), slots.data(), 20, keys.data(), values.data());
      for (std::size_t i = 0; i < 20; ++i) {
        for (std::uint32_t head = 0; head < dims.heads; ++head) {
          std::vector<float> key(dims.key), value(dims.value);
          load_kv_row(layout, layer.bytes.data(), head, static_cast<std::size_t>(slots[i]),
                      key.data(), value.data());
          expect_rounded(layout.key_side, &keys[(i * dims.heads + head) * dims.key], key,
                         layout.key_block);
          expect_rounded(layout.value_side, &values[(i * dims.heads + head) * dims.value], value,
                         layout.value_block);
        }
      }
    }
  }
}

// 4.3 bits of a normal row: the error of the best 16 levels is 0.0095 of its variance (Max 1960).
TEST(KvRows, FourBitsOfANormalRowLoseWhatTheBestLevelsDo) {
  const Dims dims{1, 64, 64};
  Rng rng(3);
  double lost = 0.0, size = 0.0;
  for (int round = 0; round < 200; ++round) {
    std::vector<float> row(64);
    for (float& x : row) {  // a sum of twelve is nearly normal
      double sum = -6.0;
      for (int i = 0; i < 12; ++i) sum += static_cast<double>(rng.below(1U << 20)) / (1 << 20);
      x = static_cast<float>(sum);
    }
    Layer layer(KvFormat::kQ4, dims, 1);
    const std::int64_t slot = 3;
    store_kv_rows(layer.layout, layer.bytes.data(), &slot, 1, row.data(), row.data());
    std::vector<float> key(64), value(64);
    load_kv_row(layer.layout, layer.bytes.data(), 0, 3, key.data(), value.data());
    EXPECT_EQ(key, value);
    for (std::size_t d = 0; d < 64; ++d) {
      lost += (double{key[d]} - row[d]) * (double{key[d]} - row[d]);
      size += double{row[d]} * row[d];
    }
  }
  EXPECT_LE(lost / size, 0.0095);
}

// One large value of a key costs the others little once it is spread (B3).
TEST(KvRows, AnOutlierDoesNotTakeTheStepsOfTheOthers) {
  const Dims dims{1, 64, 64};
  std::vector<float> row(64);
  Rng rng(4);
  for (float& x : row) x = static_cast<float>(rng.below(2000)) / 1000.0F - 1.0F;
  row[17] = 100.0F;
  Layer layer(KvFormat::kQ8, dims, 1);
  const std::int64_t slot = 0;
  store_kv_rows(layer.layout, layer.bytes.data(), &slot, 1, row.data(), row.data());
  std::vector<float> key(64), value(64);
  load_kv_row(layer.layout, layer.bytes.data(), 0, 0, key.data(), value.data());
  double spread_error = 0.0, plain_error = 0.0;
  for (std::size_t d = 0; d < 64; ++d) {
    spread_error += std::pow(double{key[d]} - row[d], 2.0);
    plain_error += std::pow(double{value[d]} - row[d], 2.0);
  }
  EXPECT_LE(spread_error * 20, plain_error);
}

// B3: what a value of 4 bits and its remainder stand for together is the value in float16's
// precision of the difference, for each head's row of its layer; padding has none.
TEST(KvRows, AValueAndItsRemainderMakeTheValue) {
  constexpr std::size_t kLayers = 3;
  for (const KvFormat format : {KvFormat::kQ8Q4, KvFormat::kQ4}) {
    for (const Dims& dims : kDims) {
      const std::vector<float> keys = random_rows(20 * dims.heads * dims.key, 3);
      std::vector<float> values = random_rows(20 * dims.heads * dims.value, 4);
      for (std::uint32_t d = 0; d < dims.value; ++d) values[d] = 0.0F;  // row 0, head 0
      std::vector<std::int64_t> slots(20);
      std::iota(slots.begin(), slots.end(), 5);
      Layer layer(format, dims, 2);
      const KvLayout& layout = layer.layout;
      const std::size_t width = std::size_t{dims.heads} * layout.value_columns;
      std::vector<std::uint16_t> numbers(20 * kLayers * width, 0xFFFF);
      std::vector<RemainderRow> rows;
      rows.reserve(20);
      for (std::size_t i = 0; i < 20; ++i)
        rows.push_back({numbers.data() + i * kLayers * width, width});
      cpu_kernels(best_instruction_set())
          .store_kv_rows(layout, layer.bytes.data(), 1, slots.data(), 20, keys.data(),
                         values.data(), rows.data());
      for (std::size_t i = 0; i < 20; ++i) {
        for (std::size_t at = 0; at < kLayers * width; ++at) {
          if (at / width == 1) continue;
          EXPECT_EQ(numbers[i * kLayers * width + at], 0xFFFF) << "of another layer";
        }
        for (std::uint32_t head = 0; head < dims.heads; ++head) {
          std::vector<float> stored(dims.value);
          load_stored_kv_row(layout, layer.bytes.data(), head, static_cast<std::size_t>(slots[i]),
                             nullptr, stored.data());
          const float* value = &values[(i * dims.heads + head) * dims.value];
          const std::vector<double> wanted =
              plain_spread(std::vector<float>(value, value + dims.value), layout.value_block);
          const double most = largest_magnitude(wanted);
          const std::uint16_t* rest = rows[i].of(1) + std::size_t{head} * layout.value_columns;
          for (std::uint32_t d = 0; d < layout.value_columns; ++d) {
            const double taken = half_value(rest[d]);
            if (d >= dims.value) {
              EXPECT_EQ(taken, 0.0);
              continue;
            }
            const double error = std::fabs(double{stored[d]} + taken - wanted[d]);
            if (std::fabs(wanted[d] - stored[d]) > 65504.0) {
              EXPECT_EQ(std::fabs(taken), 65504.0) << "the largest float16";
            } else {
              EXPECT_LE(error, std::fabs(taken) * 0x1p-11 + 0x1p-25 + most * 0x1p-21);
            }
          }
        }
      }
    }
  }
}

TEST(KvRows, WhatASlotHoldsDependsOnItsRowAlone) {
  for (const KvFormat format : kFormats) {
    const Dims dims{2, 20, 36};
    const std::vector<float> keys = random_rows(16 * 40, 5), values = random_rows(16 * 72, 6);
    Layer together(format, dims, 1), apart(format, dims, 1);
    std::vector<std::int64_t> slots(16);
    std::iota(slots.begin(), slots.end(), 0);
    store_kv_rows(together.layout, together.bytes.data(), slots.data(), 16, keys.data(),
                  values.data());
    for (std::size_t i = 16; i-- > 0;) {
      store_kv_rows(apart.layout, apart.bytes.data(), &slots[i], 1, &keys[i * 40], &values[i * 72]);
    }
    EXPECT_EQ(together.bytes, apart.bytes);
  }
}

TEST(KvRows, ARowThatIsNotFiniteIsReadBackAsNotFinite) {
  for (const KvFormat format : kFormats) {
    for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
      const Dims dims{1, 8, 8};
      std::vector<float> keys = random_rows(8, 7), values = random_rows(8, 8);
      keys[3] = values[4] = bad;
      Layer layer(format, dims, 1);
      const std::int64_t slot = 9;
      store_kv_rows(layer.layout, layer.bytes.data(), &slot, 1, keys.data(), values.data());
      std::vector<float> key(8), value(8);
      load_kv_row(layer.layout, layer.bytes.data(), 0, 9, key.data(), value.data());
      EXPECT_FALSE(std::isfinite(key[3]));
      EXPECT_FALSE(std::isfinite(value[4]));
    }
  }
}

TEST(KvRows, ACopyTakesTheFirstRowsAndLeavesTheOthers) {
  for (const KvFormat format : kFormats) {
    for (const Dims& dims : kDims) {
      for (const std::uint32_t count : {0U, 1U, 5U, 15U, 16U, 17U, 30U, 32U}) {
        const std::vector<float> keys = random_rows(64 * dims.heads * dims.key, 9);
        const std::vector<float> values = random_rows(64 * dims.heads * dims.value, 10);
        std::vector<std::int64_t> slots(64);
        std::iota(slots.begin(), slots.end(), 0);
        Layer layer(format, dims, 4), expected(format, dims, 4);
        for (Layer* one : {&layer, &expected}) {
          store_kv_rows(one->layout, one->bytes.data(), slots.data(), 64, keys.data(),
                        values.data());
        }
        copy_kv_rows(layer.layout, layer.bytes.data(), 0, 2, count);
        for (std::uint32_t i = 0; i < count; ++i) slots[i] = 32 + i;
        store_kv_rows(expected.layout, expected.bytes.data(), slots.data(), count, keys.data(),
                      values.data());
        // Padding of values travels with whole tiles and rows; it is no part of a row.
        for (std::uint32_t head = 0; head < dims.heads; ++head) {
          for (std::size_t slot = 0; slot < 64; ++slot) {
            std::vector<float> row(dims.key + dims.value), wanted(dims.key + dims.value);
            load_kv_row(layer.layout, layer.bytes.data(), head, slot, row.data(), &row[dims.key]);
            load_kv_row(layer.layout, expected.bytes.data(), head, slot, wanted.data(),
                        &wanted[dims.key]);
            ASSERT_EQ(std::memcmp(row.data(), wanted.data(), row.size() * 4), 0) << count;
          }
        }
      }
    }
  }
}

TEST(KvRows, ATokenTakesWhatTheFormatSays) {
  const auto bytes = [](KvFormat format, const Dims& dims) {
    const KvLayout layout = make_kv_layout(format, dims.heads, dims.key, dims.value, 8);
    EXPECT_EQ(layout.layer_bytes, kv_bytes_per_token(layout) * 8 * 16);
    return kv_bytes_per_token(layout);
  };
  EXPECT_EQ(bytes(KvFormat::kF16, {3, 64, 64}), 3U * 2 * 128);
  EXPECT_EQ(bytes(KvFormat::kQ8, {3, 64, 64}), 3U * (128 + 8));
  EXPECT_EQ(bytes(KvFormat::kF16, {1, 7, 33}), 2U * (7 + 48));  // values are padded to 16
  EXPECT_EQ(bytes(KvFormat::kQ8, {1, 7, 33}), 8U + 48 + 8);     // keys to 4
  EXPECT_EQ(bytes(KvFormat::kQ8Q4, {3, 64, 64}), 3U * (64 + 32 + 8));
  EXPECT_EQ(bytes(KvFormat::kQ4, {3, 64, 64}), 3U * (64 + 8));
  EXPECT_EQ(bytes(KvFormat::kQ4, {1, 7, 33}), 4U + 32 + 8);  // to 8 and to 32
}

// What the table promises, for the heads of the models there are: q8 at most 8.6 bits, q8/q4 at
// most 6.6 (B3).
TEST(KvRows, AValueTakesTheBitsOfItsFormat) {
  const auto bits = [](KvFormat format, std::uint32_t dim) {
    return kv_bits_per_value(make_kv_layout(format, 2, dim, dim, 1));
  };
  for (const std::uint32_t dim : {64U, 128U, 256U}) {
    const double scales = 32.0 / dim;
    EXPECT_DOUBLE_EQ(bits(KvFormat::kF16, dim), 16.0);
    EXPECT_DOUBLE_EQ(bits(KvFormat::kQ8, dim), 8.0 + scales);
    EXPECT_DOUBLE_EQ(bits(KvFormat::kQ8Q4, dim), 6.0 + scales);
    EXPECT_DOUBLE_EQ(bits(KvFormat::kQ4, dim), 4.0 + scales);
    EXPECT_LE(bits(KvFormat::kQ8, dim), 8.6);
    EXPECT_LE(bits(KvFormat::kQ8Q4, dim), 6.6);
  }
}

TEST(KvRows, KeysNeverHaveFewerBitsThanValues) {
  for (const KvFormatInfo& info : kv_formats()) {
    EXPECT_LE(info.key, info.value) << info.name;
    EXPECT_EQ(kv_format_named(info.name), info.format);
  }
  EXPECT_FALSE(kv_format_named("q4/q8").has_value());
}

}  // namespace
}  // namespace refrain::kernels
