// OpenTile and RemainderPlan against a plain list of what each position's remainder is (B3): each
// row of a batch sees the numbers of all computed rows of its own tile, those of earlier batches
// too, however a sequence is cut, taken back or repaired, and nothing of other sequences or layers.
#include "model/open_tile.h"

#include <gtest/gtest.h>

#include <map>

#include "base/rng.h"
#include "model/batch.h"

namespace refrain::model {
namespace {

using kernels::kTileTokens;
using kernels::KvFormat;
using kernels::RemainderRow;

constexpr std::uint32_t kLayers = 3, kHeads = 2;
const kernels::KvLayout kLayout = kernels::make_kv_layout(KvFormat::kQ8Q4, kHeads, 16, 24, 8);
const std::size_t kWidth = std::size_t{kHeads} * kLayout.value_columns;

std::uint16_t number(std::uint64_t seed, std::uint32_t layer, std::size_t at) {
  return static_cast<std::uint16_t>(seed * 31 + layer * 7 + at);
}

struct Driven {
  OpenTile open_tile;
  Position begin = 0;                          // a multiple of 16: found in the cache in front
  Position length = 0;                         // computed and committed
  std::map<Position, std::uint64_t> computed;  // seed of each position's numbers
};

class Driver {
 public:
  explicit Driver(std::uint64_t seed) : rng_(seed) {}

  // Rows of several sequences as one batch, layer after layer as executors do. What is computed is
  // kept if `done`.
  void run(const std::vector<std::pair<Driven*, std::vector<Position>>>& pieces, bool done) {
    Batch batch;
    std::vector<std::uint64_t> seeds;
    std::vector<std::map<Position, std::uint64_t>> after;
    for (const auto& [driven, positions] : pieces) {
      const auto index = static_cast<std::uint32_t>(batch.sequences.size());
      batch.sequences.push_back({.length = static_cast<std::uint32_t>(positions.back()) + 1,
                                 .open_tile = &driven->open_tile});
      after.push_back(driven->computed);
      for (const Position position : positions) {
        batch.rows.push_back({.position = position, .sequence = index});
        seeds.push_back(rng_.next());
        after.back()[position] = seeds.back();
      }
    }
    plan_.assign(batch, kLayout, kLayers);
    for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
      for (std::size_t i = 0; i < batch.rows.size(); ++i) {
        for (std::size_t at = 0; at < kWidth; ++at)
          plan_.stored()[i].of(layer)[at] = number(seeds[i], layer, at);
      }
      for (std::size_t i = 0; i < batch.rows.size(); ++i)
        expect_seen(batch.rows[i], i, layer, after[batch.rows[i].sequence]);
    }
    if (!done) return;
    plan_.keep();
    for (std::size_t i = 0; i < pieces.size(); ++i) pieces[i].first->computed = after[i];
  }

  Rng& rng() { return rng_; }

 private:
  void expect_seen(const BatchRow& row, std::size_t index, std::uint32_t layer,
                   const std::map<Position, std::uint64_t>& computed) const {
    const Position tile = row.position / 16 * 16;
    for (Position i = 0; i < 16; ++i) {
      const RemainderRow& seen = plan_.seen()[index * kTileTokens + static_cast<std::size_t>(i)];
      const auto known = computed.find(tile + i);
      if (tile + i > row.position || known == computed.end()) {
        ASSERT_EQ(seen.at, nullptr) << "row " << row.position << " sees " << tile + i;
        continue;
      }
      ASSERT_NE(seen.at, nullptr) << "row " << row.position << " does not see " << tile + i;
      for (std::size_t at = 0; at < kWidth; ++at)
        ASSERT_EQ(seen.of(layer)[at], number(known->second, layer, at));
    }
  }

  Rng rng_;
  RemainderPlan plan_;
};

std::vector<Position> range(Position begin, Position end) {
  std::vector<Position> positions;
  for (; begin < end; ++begin) positions.push_back(begin);
  return positions;
}

TEST(OpenTile, RowsSeeTheirTileWhateverTheCutsAndWhatIsTakenBack) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Driver driver(seed);
    Rng& rng = driver.rng();
    std::vector<Driven> sequences(3);
    for (Driven& one : sequences) one.length = one.begin = static_cast<Position>(16 * rng.below(4));
    for (int step = 0; step < 120; ++step) {
      std::vector<std::pair<Driven*, std::vector<Position>>> pieces;
      for (Driven& one : sequences) {
        if (rng.below(3) == 0) continue;
        const auto count = static_cast<Position>(1 + rng.below(rng.below(2) == 0 ? 4 : 50));
        pieces.emplace_back(&one, range(one.length, one.length + count));
      }
      if (pieces.empty()) continue;
      const auto fate = rng.below(4);
      driver.run(pieces, fate != 0);  // 0: the step fails
      for (const auto& [one, positions] : pieces) {
        if (fate == 1) {  // rejected after it was computed
          one->computed.erase(one->computed.lower_bound(one->length), one->computed.end());
        } else if (fate > 1) {
          one->length = positions.back() + 1;
        }
      }
      if (::testing::Test::HasFatalFailure()) FAIL() << "seed " << seed << " step " << step;
    }
  }
}

// A repair: chosen rows of a prompt in ascending order, in batches that end anywhere, after a look
// at its end. The other rows of a tile are seen as they are stored.
TEST(OpenTile, RowsOfARepairSeeThoseThatItComputed) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Driver driver(seed);
    Rng& rng = driver.rng();
    Driven one;
    const auto length = static_cast<Position>(40 + rng.below(200));
    driver.run({{&one, range(length - 20, length)}}, true);
    one.computed.clear();  // of other rows: computed again below
    std::vector<Position> rows;
    for (Position at = 0; at < length; ++at)
      if (at >= length - 20 || rng.below(3) != 0) rows.push_back(at);
    for (std::size_t done = 0; done < rows.size();) {
      const std::size_t end = std::min(rows.size(), done + 1 + rng.below(40));
      driver.run({{&one, std::vector<Position>(rows.begin() + static_cast<std::ptrdiff_t>(done),
                                               rows.begin() + static_cast<std::ptrdiff_t>(end))}},
                 true);
      if (::testing::Test::HasFatalFailure()) FAIL() << "seed " << seed;
      done = end;
    }
  }
}

TEST(OpenTile, OfALayoutWithoutRemaindersNothingIsHeldOrNeeded) {
  RemainderPlan plan;
  OpenTile open_tile;
  Batch batch;
  batch.sequences.push_back({.length = 3});
  batch.sequences.push_back({.length = 3, .open_tile = &open_tile});
  for (std::uint32_t sequence = 0; sequence < 2; ++sequence)
    for (Position at = 0; at < 3; ++at)
      batch.rows.push_back({.position = at, .sequence = sequence});
  for (const KvFormat format : {KvFormat::kF16, KvFormat::kQ8}) {
    plan.assign(batch, kernels::make_kv_layout(format, kHeads, 16, 24, 8), kLayers);
    plan.keep();
  }
  EXPECT_EQ(open_tile.bytes(), 0U);
}

// What a running sequence takes beside its blocks: float16 of two tiles' values at most.
TEST(OpenTile, HoldsTwoTilesAtMost) {
  Driver driver(1);
  Driven one;
  for (Position at = 0; at < 200; at += 7) driver.run({{&one, range(at, at + 7)}}, true);
  EXPECT_EQ(one.open_tile.bytes(), 2 * kLayers * kTileTokens * kWidth * 2);
}

}  // namespace
}  // namespace refrain::model
