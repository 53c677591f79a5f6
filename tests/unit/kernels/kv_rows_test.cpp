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

namespace refrain::kernels {
namespace {

StoreKernel* const store_kv_rows = cpu_kernels(best_instruction_set()).store_kv_rows;

constexpr KvFormat kFormats[] = {KvFormat::kF16, KvFormat::kQ8};

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
      for (const InstructionSet set : available_instruction_sets()) {
        Layer layer(format, dims, 3);
        cpu_kernels(set).store_kv_rows(layer.layout, layer.bytes.data(), slots.data(), 40,
                                       keys.data(), values.data());
        written.push_back(layer.bytes);
        EXPECT_EQ(written.back(), written.front()) << kv_format_name(format) << dims.key;
      }
    }
  }
}

TEST(KvRows, ARowIsReadBackWithinTheRoundingOfItsFormat) {
  for (const KvFormat format : kFormats) {
    for (const Dims& dims : kDims) {
      const std::vector<float> keys = random_rows(20 * dims.heads * dims.key, 3);
      const std::vector<float> values = random_rows(20 * dims.heads * dims.value, 4);
      std::vector<std::int64_t> slots;
      for (std::int64_t i = 0; i < 20; ++i) slots.push_back((i * 7 + 3) % 32);
      Layer layer(format, dims, 2);
      store_kv_rows(layer.layout, layer.bytes.data(), slots.data(), 20, keys.data(), values.data());
      const auto check = [&](const float* wanted, const std::vector<float>& got) {
        float most = 0.0F;
        for (std::size_t d = 0; d < got.size(); ++d) most = std::max(most, std::fabs(wanted[d]));
        for (std::size_t d = 0; d < got.size(); ++d) {
          const double error = std::fabs(double{got[d]} - wanted[d]);
          if (format == KvFormat::kQ8) {
            EXPECT_LE(error, most / 127.0 * 0.5001);
          } else if (std::fabs(wanted[d]) >= 65520.0F) {
            EXPECT_TRUE(std::isinf(got[d]));
          } else {
            EXPECT_LE(error, std::max(std::fabs(double{wanted[d]}) * 0x1p-11, 0x1p-25));
          }
        }
      };
      for (std::size_t i = 0; i < 20; ++i) {
        for (std::uint32_t head = 0; head < dims.heads; ++head) {
          std::vector<float> key(dims.key), value(dims.value);
          load_kv_row(layer.layout, layer.bytes.data(), head, static_cast<std::size_t>(slots[i]),
                      key.data(), value.data());
          check(&keys[(i * dims.heads + head) * dims.key], key);
          check(&values[(i * dims.heads + head) * dims.value], value);
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
}

}  // namespace
}  // namespace refrain::kernels
