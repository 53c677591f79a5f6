// Moved rows: where they land, that the slots beside them stay, and that turned keys are the bytes
// that storing the turned rows would write, on every instruction set (A4).
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

constexpr KvFormat kFormats[] = {KvFormat::kF16, KvFormat::kQ8, KvFormat::kQ8Q4, KvFormat::kQ4};
constexpr std::size_t kTiles = 8, kSlots = kTiles * kTileTokens;

struct Shape {
  std::uint32_t heads, key, value, rotary;
  bool halves;
};
constexpr Shape kShapes[] = {{3, 64, 64, 64, false}, {2, 80, 48, 80, true},
                             {2, 24, 32, 8, false},  {1, 20, 36, 8, true},
                             {2, 7, 33, 6, false},   {1, 256, 256, 256, true}};

// A layer filled with random rows.
struct Layer {
  KvLayout layout;
  std::vector<std::byte> bytes;

  Layer(KvFormat format, const Shape& shape)
      : layout(make_kv_layout(format, shape.heads, shape.key, shape.value, kTiles)),
        bytes(layout.layer_bytes, std::byte{0}) {
    Rng rng(7);
    const auto random = [&](std::size_t count) {
      std::vector<float> values(count);
      for (float& value : values) {
        value = static_cast<float>(static_cast<double>(rng.below(1U << 20)) / (1 << 18) - 2.0);
      }
      return values;
    };
    std::vector<float> keys = random(kSlots * shape.heads * shape.key);
    const std::vector<float> values = random(kSlots * shape.heads * shape.value);
    // Rows that are zero, tiny and not finite.
    std::fill_n(keys.begin(), shape.key, 0.0F);
    for (std::uint32_t d = 0; d < shape.key; ++d) keys[shape.heads * shape.key + d] *= 1e-41F;
    keys[2 * std::size_t{shape.heads} * shape.key] = std::numeric_limits<float>::infinity();
    keys[3 * std::size_t{shape.heads} * shape.key + 1] = std::nanf("");
    std::vector<std::int64_t> slots(kSlots);
    std::iota(slots.begin(), slots.end(), 0);
    store(slots, keys, values);
  }

  void store(const std::vector<std::int64_t>& slots, const std::vector<float>& keys,
             const std::vector<float>& values) {
    const Remainders remainders(layout, slots.size());
    cpu_kernels(InstructionSet::kPortable)
        .store_kv_rows(layout, bytes.data(), 0, slots.data(), slots.size(), keys.data(),
                       values.data(), remainders.rows.data());
  }
  void load(std::size_t slot, std::uint32_t head, std::vector<float>& key,
            std::vector<float>& value) const {
    key.resize(layout.key_dim);
    value.resize(layout.value_dim);
    load_kv_row(layout, bytes.data(), head, slot, key.data(), value.data());
  }
};

struct Angles {
  std::vector<float> cosine, sine;
  Rotation rotation;
  Angles(const Shape& shape, double distance) {
    for (std::uint32_t i = 0; i < shape.rotary / 2; ++i) {
      const double angle = distance * std::pow(10000.0, -2.0 * i / shape.rotary);
      cosine.push_back(static_cast<float>(std::cos(angle)));
      sine.push_back(static_cast<float>(std::sin(angle)));
    }
    rotation = {cosine.data(), sine.data(), shape.rotary, shape.halves};
  }
};

struct Turner {
  std::vector<std::byte> turned;
  std::vector<float> scratch;
  KeyTurn turn;
  Turner(const Layer& layer, InstructionSet set, const Rotation& rotation)
      : turned(layer.layout.key_tile_bytes),
        scratch(std::size_t{layer.layout.key_groups} * 4 * kTileTokens) {
    turn = {cpu_kernels(set).turn_key_tile, rotation, turned.data(), scratch.data()};
  }
};

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0) return false;
  }
  return a.size() == b.size();
}

// What every slot should hold after rows [from, from + count) went to [to, ...).
void expect_moved(const Layer& before, const Layer& after, std::size_t from, std::size_t to,
                  std::size_t count, const std::string& where) {
  std::vector<float> key, value, wanted_key, wanted_value;
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    const bool moved = slot >= to && slot < to + count;
    for (std::uint32_t head = 0; head < before.layout.kv_head_count; ++head) {
      before.load(moved ? slot - to + from : slot, head, wanted_key, wanted_value);
      after.load(slot, head, key, value);
      ASSERT_TRUE(same(key, wanted_key)) << where << ": key of slot " << slot;
      ASSERT_TRUE(same(value, wanted_value)) << where << ": value of slot " << slot;
    }
  }
}

TEST(KvMove, ACopyBringsEveryRowToAnyOffsetAndLeavesTheOthers) {
  for (const KvFormat format : kFormats) {
    for (const Shape& shape : kShapes) {
      for (const std::size_t from : {0U, 3U, 13U, 16U}) {
        for (const std::size_t to : {64U, 65U, 66U, 71U, 79U}) {
          for (const std::size_t count : {0U, 1U, 2U, 5U, 16U, 19U, 33U, 48U}) {
            const Layer before(format, shape);
            Layer after = before;
            move_kv_rows(after.layout, after.bytes.data(), from, to, count, nullptr);
            expect_moved(before, after, from, to, count,
                         std::string(kv_format_name(format)) + " " + std::to_string(from) + " to " +
                             std::to_string(to) + ", " + std::to_string(count));
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

// The slow way: read rows, turn them, store them.
TEST(KvMove, TurnedKeysAreWhatStoringTheTurnedRowsWrites) {
  for (const KvFormat format : kFormats) {
    for (const Shape& shape : kShapes) {
      const Angles angles(shape, -1234.0);
      const Layer before(format, shape);
      constexpr std::size_t kFrom = 1, kTo = 70, kCount = 45;
      Layer wanted = before;
      std::vector<std::int64_t> slots;
      std::vector<float> keys, values, key, value;
      for (std::size_t i = 0; i < kCount; ++i) {
        slots.push_back(static_cast<std::int64_t>(kTo + i));
        for (std::uint32_t head = 0; head < shape.heads; ++head) {
          before.load(kFrom + i, head, key, value);
          cpu_kernels(InstructionSet::kPortable).rotate(key.data(), 1, shape.key, angles.rotation);
          keys.insert(keys.end(), key.begin(), key.end());
          values.insert(values.end(), value.begin(), value.end());
        }
      }
      wanted.store(slots, keys, values);
      for (const InstructionSet set : available_instruction_sets()) {
        Layer after = before;
        Turner turner(after, set, angles.rotation);
        move_kv_rows(after.layout, after.bytes.data(), kFrom, kTo, kCount, &turner.turn);
        for (std::size_t slot = 0; slot < kSlots; ++slot) {
          for (std::uint32_t head = 0; head < shape.heads; ++head) {
            std::vector<float> wanted_key, wanted_value;
            wanted.load(slot, head, wanted_key, wanted_value);
            after.load(slot, head, key, value);
            ASSERT_TRUE(same(key, wanted_key)) << name_of(set) << " " << kv_format_name(format)
                                               << " " << shape.key << ": slot " << slot;
            // Values are copied; storing them again may take another scale of the same row.
            if (slot >= kTo && slot < kTo + kCount)
              before.load(slot - kTo + kFrom, head, key, wanted_value);
            ASSERT_TRUE(same(value, wanted_value)) << "slot " << slot;
          }
        }
      }
    }
  }
}

// Each of: rounding of the stored key, of the turned key; sums and angles in FP32.
TEST(KvMove, TurningIsTheRotationInDoublePrecisionUpToRounding) {
  for (const KvFormat format : kFormats) {
    for (const Shape& shape : kShapes) {
      for (const double distance : {1.0, -15.0, 3000.0}) {
        const Angles angles(shape, distance);
        const Layer before(format, shape);
        Layer after = before;
        Turner turner(after, best_instruction_set(), angles.rotation);
        move_kv_rows(after.layout, after.bytes.data(), 16, 65, 32, &turner.turn);
        std::vector<float> key, value, turned;
        for (std::size_t i = 0; i < 32; ++i) {
          before.load(16 + i, 0, key, value);
          after.load(65 + i, 0, turned, value);
          double largest = 0.0;
          std::vector<double> exact(key.begin(), key.end());
          for (std::uint32_t p = 0; p < shape.rotary / 2; ++p) {
            const std::size_t a = shape.halves ? p : 2 * p,
                              b = shape.halves ? p + shape.rotary / 2 : 2 * p + 1;
            const double angle = distance * std::pow(10000.0, -2.0 * p / shape.rotary);
            exact[a] = key[a] * std::cos(angle) - key[b] * std::sin(angle);
            exact[b] = key[a] * std::sin(angle) + key[b] * std::cos(angle);
          }
          for (const double x : exact) largest = std::max(largest, std::fabs(x));
          const double spread_largest =
              largest_magnitude(plain_spread(exact, before.layout.key_block));
          for (std::size_t d = 0; d < key.size(); ++d) {
            // float16 to nearest; half a step of q8, or half the widest of q4 and what its scale
            // cuts off, each at most as large as that of the largest spread value. FP32 adds four
            // roundings of a pair.
            const double step =
                format == KvFormat::kF16
                    ? std::max(std::fabs(exact[d]) * 0x1p-11, 0x1p-25)
                    : spread_largest /
                          (before.layout.key_side == KvSide::kQ8 ? 2 * 127.0 : 63.0 / 7.5 * 0.9);
            ASSERT_LE(std::fabs(turned[d] - exact[d]), step + largest * 0x1p-20)
                << kv_format_name(format) << " dim " << d;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace refrain::kernels
