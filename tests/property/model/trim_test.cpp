// Views of trimmed sequences on whole models (B4): rows copied to other blocks are the same bits in
// every format; a view in place and the same view in copied blocks give the same logits; keys keep
// the positions they were computed at; and the attention that each head pays.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <span>

#include "base/rng.h"
#include "model/head_view.h"
#include "support/arena_driver.h"
#include "support/tiny_models.h"

namespace refrain::model {
namespace {

using test::ArenaDriver;
using test::DrivenSequence;
using test::model_of;
using test::random_tokens;

constexpr std::uint32_t kBlockSize = 16;
constexpr const char* kModels[] = {"tiny-llama", "tiny-qwen3", "tiny-gemma3", "tiny-mqa",
                                   "tiny-head80"};
constexpr KvFormat kFormats[] = {KvFormat::kF16, KvFormat::kQ8, KvFormat::kQ8Q4, KvFormat::kQ4};

struct RunOptions {
  BatchOutput* whole = nullptr;  // with attention mass
  MassKind kind = MassKind::kSum;
  const HeadView* view = nullptr;
  std::vector<float> weights = {};  // of the rows' mass; empty: 1 each
};

// Logits of `tokens` at positions [first, ...), behind a view with `dropped` rows fewer.
std::vector<float> run(ArenaDriver& driver, const kv::BlockTable& table, const TokenList& tokens,
                       std::uint32_t first, std::uint32_t dropped, const RunOptions& options = {}) {
  Batch batch;
  batch.mass_kind = options.kind;
  const auto count = static_cast<std::uint32_t>(tokens.size());
  OpenTile open_tile;  // rows in front of `tokens` are seen as they are stored
  batch.sequences.push_back({.table = &table,
                             .length = first + count,
                             .dropped = dropped,
                             .view = options.view,
                             .open_tile = &open_tile});
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto position = static_cast<Position>(first + i);
    batch.rows.push_back(
        {.token = tokens[i],
         .position = position,
         .sequence = 0,
         .slot = kv::slot_of(table, position - static_cast<Position>(dropped), kBlockSize),
         .wants_logits = true,
         .wants_mass = options.whole != nullptr,
         .mass_weight = options.weights.empty() ? 1.0F : options.weights[i]});
  }
  BatchOutput output;
  const auto ran = driver.executor().run(batch, output);
  CHECK(ran.ok(), "the step failed");
  if (options.whole != nullptr) *options.whole = output;
  return output.logits;
}

DrivenSequence computed(ArenaDriver& driver, const TokenList& tokens) {
  DrivenSequence sequence{tokens, 0, {}};
  driver.step({{&sequence, static_cast<std::uint32_t>(tokens.size())}});
  return sequence;
}

kv::BlockTable blocks_from(std::uint32_t first, std::uint32_t count) {
  kv::BlockTable table;
  for (std::uint32_t i = 0; i < count; ++i) table.push_back(BlockId{first + i});
  return table;
}

// Rows of slots from[i] of a layer and head go to tiles [first_tile, ...).
void gather(KvArena& arena, std::uint32_t layer, std::uint32_t head,
            std::span<const std::size_t> from, std::size_t first_tile) {
  for (std::size_t i = 0; i < from.size(); i += 16)
    arena.gather(layer, head, from.subspan(i, std::min<std::size_t>(16, from.size() - i)),
                 arena.tile(layer, head, first_tile + i / 16));
}

class TrimProperty : public ::testing::TestWithParam<const char*> {};

// A view of blocks 0, some rows of 1..13, 14.. of a sequence of 300 rows. Where all rows of a block
// are kept it does not matter whether they stay or are gathered elsewhere.
TEST_P(TrimProperty, AViewInPlaceAndItsCopyGiveTheSameBits) {
  const Model& model = model_of(GetParam());
  for (const KvFormat format : kFormats) {
    ArenaDriver driver(model, {1, kBlockSize, 128, 512, format});
    const DrivenSequence full = computed(driver, random_tokens(model, 300, 3));
    const TokenList more = random_tokens(model, 40, 4);
    const std::uint32_t dropped = 7 * kBlockSize;
    kv::BlockTable in_place = full.table;  // 19 blocks, the last with 12 rows
    in_place.erase(in_place.begin() + 4, in_place.begin() + 11);
    const kv::BlockTable room = blocks_from(40, 20);
    in_place.insert(in_place.end(), room.begin(), room.begin() + 3);
    // The last block of rows is written by both runs, so each has a copy of its own.
    kv::BlockTable first = in_place;
    first[11] = BlockId{70};
    driver.executor().copy_rows({in_place[11], first[11], 12});
    const std::vector<float> expected = run(driver, first, more, 300, dropped);

    kv::BlockTable copied = blocks_from(80, 15);
    std::vector<std::size_t> slots;
    slots.reserve(11 * kBlockSize + 12);
    for (std::uint32_t row = 0; row < 11 * kBlockSize + 12; ++row)
      slots.push_back(kv::slot_of(in_place, static_cast<Position>(row), kBlockSize));
    for (std::uint32_t layer = 0; layer < model.shape().layer_count; ++layer)
      for (std::uint32_t head = 0; head < model.shape().kv_head_count; ++head)
        gather(driver.arena(), layer, head, slots, 80);
    EXPECT_EQ(run(driver, copied, more, 300, dropped), expected) << kernels::kv_format_name(format);
    EXPECT_NE(expected, run(driver, blocks_from(100, 22), more, 300, 0)) << "the view matters";
  }
}

// Rows that an odd choice puts beside each other are those rows, bit for bit.
TEST_P(TrimProperty, GatheredRowsAreTheRowsTheyWere) {
  const Model& model = model_of(GetParam());
  const ModelShape& shape = model.shape();
  for (const KvFormat format : kFormats) {
    ArenaDriver driver(model, {1, kBlockSize, 64, 512, format});
    const DrivenSequence full = computed(driver, random_tokens(model, 200, 5));
    Rng rng(9);
    std::vector<float> key(shape.key_dim), value(shape.value_dim), key_was(shape.key_dim),
        value_was(shape.value_dim);
    for (std::uint32_t head = 0; head < shape.kv_head_count; ++head) {
      std::vector<std::size_t> slots;
      for (std::uint32_t row = 0; row < 192; ++row)
        if (rng.below(3) > 0) slots.push_back(kv::slot_of(full.table, row, kBlockSize));
      const std::size_t to = 40 * kBlockSize;
      gather(driver.arena(), 1, head, slots, 40);
      for (std::size_t i = 0; i < slots.size(); ++i) {
        driver.arena().read_row(1, head, slots[i], key_was.data(), value_was.data());
        driver.arena().read_row(1, head, to + i, key.data(), value.data());
        ASSERT_EQ(key, key_was) << kernels::kv_format_name(format) << " row " << i;
        ASSERT_EQ(value, value_was) << kernels::kv_format_name(format) << " row " << i;
      }
    }
  }
}

// A view in which every head keeps as many rows is the table of its blocks; and one in which the
// heads of the first layers keep all there is room for is another.
TEST_P(TrimProperty, AViewOfEqualSharesIsTheTable) {
  const Model& model = model_of(GetParam());
  const ModelShape& shape = model.shape();
  const std::uint32_t heads = shape.layer_count * shape.kv_head_count;
  for (const KvFormat format : kFormats) {
    ArenaDriver driver(model, {1, kBlockSize, 128, 512, format});
    const DrivenSequence full = computed(driver, random_tokens(model, 304, 3));
    const TokenList more = random_tokens(model, 40, 4);
    kv::BlockTable table = full.table;
    table.erase(table.begin() + 2, table.begin() + 6);
    const kv::BlockTable room = blocks_from(40, 3);
    table.insert(table.begin() + 2, room.begin(), room.end());
    const kv::BlockTable behind = blocks_from(60, 3);
    table.insert(table.end(), behind.begin(), behind.end());
    std::vector<float> plain, equal, unequal;
    for (const bool is_equal : {true, false}) {
      std::vector<std::uint32_t> counts(heads, is_equal ? 3U : 0U);
      for (std::uint32_t i = 0; i < heads / 2 && !is_equal; ++i) counts[i] = 6;
      const HeadView view(driver.arena(), 2 * kBlockSize, room, counts);
      for (std::uint32_t head = 0; head < heads; ++head) {
        std::vector<std::size_t> slots;
        slots.reserve(counts[head] * 16);
        for (std::uint32_t i = 0; i < counts[head] * 16; ++i)
          slots.push_back(kv::slot_of(full.table, 32 + i * (heads + head) % 64, kBlockSize));
        view.gather(driver.arena(), head / shape.kv_head_count, head % shape.kv_head_count, slots);
      }
      (is_equal ? equal : unequal) = run(driver, table, more, 304, 16, {.view = &view});
      if (is_equal) plain = run(driver, table, more, 304, 16);
    }
    EXPECT_EQ(plain, equal) << kernels::kv_format_name(format);
    EXPECT_NE(plain, unequal) << kernels::kv_format_name(format);
  }
}

// A head's rows are the same bits where another layer and head would have theirs.
TEST(TrimHeads, RowsLieWellInAnyTile) {
  const Model& model = model_of("tiny-llama");
  const ModelShape& shape = model.shape();
  for (const KvFormat format : kFormats) {
    ArenaDriver driver(model, {1, kBlockSize, 64, 512, format});
    const DrivenSequence full = computed(driver, random_tokens(model, 64, 5));
    const std::vector<std::size_t> slots = {3, 4, 5, 17, 30, 31, 32, 50};
    const std::uint32_t last = shape.kv_head_count - 1;
    driver.arena().gather(1, 0, slots, driver.arena().tile(0, last, 40));
    std::vector<float> key(shape.key_dim), value(shape.value_dim), key_was(shape.key_dim),
        value_was(shape.value_dim);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      driver.arena().read_row(1, 0, slots[i], key_was.data(), value_was.data());
      driver.arena().read_row(0, last, 40 * kBlockSize + i, key.data(), value.data());
      EXPECT_EQ(key, key_was) << kernels::kv_format_name(format) << " row " << i;
      EXPECT_EQ(value, value_was) << kernels::kv_format_name(format) << " row " << i;
    }
  }
}

// Room for three blocks is room for three tiles of each layer and head, and each is used once.
TEST(TrimHeads, NoTileIsHandedOutTwice) {
  const Model& model = model_of("tiny-llama");
  const ModelShape& shape = model.shape();
  ArenaDriver driver(model, {1, 32, 64, 512, KvFormat::kQ8});
  const std::uint32_t heads = shape.layer_count * shape.kv_head_count;
  std::vector<std::uint32_t> counts(heads, 0);
  counts.front() = 1;
  counts.back() = 6 * heads - 1;
  const std::vector<BlockId> blocks = {BlockId{9}, BlockId{2}, BlockId{30}};
  const HeadView view(driver.arena(), 32, blocks, counts);
  std::set<std::uint64_t> found, expected;
  for (std::uint32_t head = 0; head < heads; ++head)
    for (std::uint32_t i = 0; i < counts[head]; ++i)
      found.insert(view.seen().heads[head].tiles[i].keys);
  for (std::uint32_t head = 0; head < heads; ++head)
    for (const BlockId block : blocks)
      for (const std::size_t half : {0U, 1U})
        expected.insert(driver.arena()
                            .tile(head / shape.kv_head_count, head % shape.kv_head_count,
                                  std::size_t{to_int(block)} * 2 + half)
                            .keys);
  EXPECT_EQ(found, expected);
  EXPECT_EQ(found.size(), std::size_t{6} * heads);
  EXPECT_EQ(view.seen().begin, 32U);
  EXPECT_EQ(view.seen().end, 128U);
  EXPECT_EQ(view.seen().most_tiles, counts.back());
}

// Rotary embeddings only see distances, so a sequence that begins at position 32, with nothing in
// front of it, answers as one that begins at 0, up to rounding.
TEST_P(TrimProperty, RowsBehindADropKeepTheirPositions) {
  const Model& model = model_of(GetParam());
  const std::size_t vocabulary = model.shape().vocabulary_size;
  ArenaDriver driver(model, {1, kBlockSize, 64, 512, KvFormat::kF16});
  const TokenList tokens = random_tokens(model, 90, 6);
  const std::vector<float> at_zero = run(driver, blocks_from(0, 6), tokens, 0, 0);
  const std::vector<float> later = run(driver, blocks_from(8, 6), tokens, 32, 32);
  // With positions that do not fit the rows it would be off by much more.
  TokenList rest(tokens.begin() + 50, tokens.end());
  const std::vector<float> wrong = run(driver, blocks_from(0, 6), rest, 50 + 32, 32);
  double near = 0, far = 0;
  for (std::size_t i = 50 * vocabulary; i < at_zero.size(); ++i) {
    near = std::max(near, std::abs(double{at_zero[i]} - later[i]));
    far = std::max(far, std::abs(double{at_zero[i]} - wrong[i - 50 * vocabulary]));
  }
  EXPECT_LT(near * 5, far);
}

INSTANTIATE_TEST_SUITE_P(Models, TrimProperty, ::testing::ValuesIn(kModels), [](const auto& test) {
  std::string name = test.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(TrimMass, HeadsAddUpToTheWholeAndTheLargestIsNoMoreThanTheSum) {
  const Model& model = model_of("tiny-llama");
  const ModelShape& shape = model.shape();
  ArenaDriver driver(model, {2, kBlockSize, 64, 512, KvFormat::kF16});
  const DrivenSequence full = computed(driver, random_tokens(model, 300, 7));
  kv::BlockTable view = full.table;
  view.erase(view.begin() + 2, view.begin() + 9);
  view.push_back(BlockId{50});
  const TokenList more = random_tokens(model, 5, 8);
  const std::uint32_t dropped = 7 * kBlockSize, keys = 305 - dropped;
  std::map<MassKind, BatchOutput> by_kind;
  for (const MassKind kind : {MassKind::kSum, MassKind::kHeadSum, MassKind::kHeadMax})
    run(driver, view, more, 300, dropped, {.whole = &by_kind[kind], .kind = kind});
  const std::vector<float>& sum = by_kind[MassKind::kSum].mass.at(0).weights;
  const std::vector<float>& heads = by_kind[MassKind::kHeadSum].mass.at(0).weights;
  const std::vector<float>& most = by_kind[MassKind::kHeadMax].mass.at(0).weights;
  ASSERT_EQ(by_kind[MassKind::kHeadMax].mass.at(0).length, keys);
  ASSERT_EQ(heads.size(), std::size_t{shape.layer_count} * shape.kv_head_count * keys);
  ASSERT_EQ(most.size(), heads.size());
  for (std::size_t layer = 0; layer < shape.layer_count; ++layer) {
    double whole = 0;
    for (std::size_t key = 0; key < keys; ++key) {
      double of_heads = 0;
      for (std::size_t head = 0; head < shape.kv_head_count; ++head) {
        const std::size_t at = (layer * shape.kv_head_count + head) * keys + key;
        of_heads += double{heads[at]};
        EXPECT_LE(most[at], heads[at] + 1e-6F);
        EXPECT_GE(most[at] * 5, heads[at] - 1e-5F);  // of five rows
      }
      EXPECT_NEAR(of_heads, double{sum[layer * keys + key]}, 1e-4);
      whole += of_heads;
    }
    EXPECT_NEAR(whole, 5.0 * shape.head_count, 1e-2);  // each row and head pays one
  }
}

// Rows with weights: as if each had been asked alone, and its figures multiplied.
TEST(TrimMass, RowsCountAsMuchAsTheirWeights) {
  const Model& model = model_of("tiny-llama");
  ArenaDriver driver(model, {2, kBlockSize, 64, 512, KvFormat::kF16});
  const DrivenSequence full = computed(driver, random_tokens(model, 300, 9));
  kv::BlockTable table = full.table;
  table.push_back(BlockId{50});
  const TokenList more = random_tokens(model, 3, 10);
  const std::vector<float> weights = {0.5F, 0.0F, 3.0F};
  for (const MassKind kind : {MassKind::kSum, MassKind::kHeadSum, MassKind::kHeadMax}) {
    BatchOutput together;
    run(driver, table, more, 300, 0, {.whole = &together, .kind = kind, .weights = weights});
    const std::vector<float>& found = together.mass.at(0).weights;
    std::vector<float> expected(found.size(), 0.0F);
    for (std::size_t row = 0; row < weights.size(); ++row) {
      std::vector<float> only(weights.size(), 0.0F);
      only[row] = 1;
      BatchOutput alone;
      run(driver, table, more, 300, 0, {.whole = &alone, .kind = kind, .weights = only});
      const std::vector<float>& mass = alone.mass.at(0).weights;
      for (std::size_t i = 0; i < mass.size(); ++i)
        expected[i] = kind == MassKind::kHeadMax ? std::max(expected[i], weights[row] * mass[i])
                                                 : expected[i] + weights[row] * mass[i];
    }
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], expected[i], 1e-5F * (1 + expected[i]));
  }
}

}  // namespace
}  // namespace refrain::model
