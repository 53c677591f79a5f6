// Moved and repaired rows on whole models (A4, A13): rows may have gaps; recomputing all of a
// moved segment gives a full prefill bit for bit; a segment at its old place behind its old prefix
// too; a moved key of layer 0, which sees no context, is the key computed at the target up to
// rounding. And the attention mass that repairs are chosen by.
#include "model/splice.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "base/rng.h"
#include "support/arena_driver.h"
#include "support/plain_spread.h"
#include "support/tiny_models.h"

namespace refrain::model {
namespace {

using test::ArenaDriver;
using test::DrivenSequence;
using test::DriverOptions;
using test::Kernels;
using test::model_of;
using test::random_tokens;

constexpr std::uint32_t kLength = 300;  // crosses a split of attention; Gemma's window is 32

struct Subject {
  std::string name;
  KvFormat format;
};

class SpliceProperty : public ::testing::TestWithParam<Subject> {};

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  for (const char* name :
       {"tiny-llama", "tiny-qwen2", "tiny-qwen3", "tiny-gemma3", "tiny-Q4_1", "tiny-linear",
        "tiny-yarn", "tiny-llama3", "tiny-partial", "tiny-head80", "tiny-mha", "tiny-mqa"}) {
    for (const KvFormat format : {KvFormat::kF16, KvFormat::kQ8, KvFormat::kQ8Q4, KvFormat::kQ4})
      all.push_back({name, format});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Models, SpliceProperty, ::testing::ValuesIn(subjects()),
                         [](const auto& param) {
                           std::string name =
                               param.param.name + "_" + kernels::kv_format_name(param.param.format);
                           std::replace(name.begin(), name.end(), '-', '_');
                           std::replace(name.begin(), name.end(), '/', '_');
                           return name;
                         });

TokenList operator+(TokenList a, const TokenList& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<Position> range(std::uint32_t begin, std::uint32_t end) {
  std::vector<Position> rows(end - begin);
  std::iota(rows.begin(), rows.end(), static_cast<Position>(begin));
  return rows;
}

// An arena with an executor and a splice.
class Bench {
 public:
  Bench(const Model& model, const DriverOptions& options)
      : vocabulary_(model.shape().vocabulary_size),
        block_size_(options.block_size),
        driver(model, options),
        splice(std::move(Splice::create(model, driver.arena())).value()) {}

  DrivenSequence open(const TokenList& tokens) {
    DrivenSequence sequence{tokens, 0, {}};
    driver.grow(sequence, static_cast<std::uint32_t>(tokens.size()));
    return sequence;
  }

  // Rows of a sequence in pieces of at most `piece`; logits of all of them.
  std::vector<float> run(const DrivenSequence& sequence, const std::vector<Position>& rows,
                         std::size_t piece = 512, BatchOutput* last = nullptr,
                         std::uint32_t mass_rows = 0, std::uint32_t first_mass_layer = 0) {
    std::vector<float> logits;
    for (std::size_t at = 0; at < rows.size(); at += piece) {
      Batch batch;
      batch.first_mass_layer = first_mass_layer;
      const std::size_t end = std::min(rows.size(), at + piece);
      batch.sequences.push_back({.table = &sequence.table,
                                 .length = static_cast<std::uint32_t>(rows[end - 1]) + 1,
                                 .open_tile = &sequence.open_tile});
      for (std::size_t i = at; i < end; ++i) {
        batch.rows.push_back({.token = sequence.tokens[static_cast<std::size_t>(rows[i])],
                              .position = rows[i],
                              .sequence = 0,
                              .slot = kv::slot_of(sequence.table, rows[i], block_size_),
                              .wants_logits = true,
                              .wants_mass = i + mass_rows >= rows.size()});
      }
      BatchOutput output;
      const auto done = driver.executor().run(batch, output);
      CHECK(done.ok(), "the step failed");
      logits.insert(logits.end(), output.logits.begin(), output.logits.end());
      if (last != nullptr) *last = std::move(output);
    }
    return logits;
  }

  std::vector<float> rows_of(const std::vector<float>& logits, const std::vector<Position>& rows) {
    std::vector<float> part;
    for (const Position row : rows) {
      const auto first = logits.begin() + static_cast<std::ptrdiff_t>(row) * vocabulary_;
      part.insert(part.end(), first, first + vocabulary_);
    }
    return part;
  }

  void move(const DrivenSequence& from, std::uint32_t at, const DrivenSequence& to,
            std::uint32_t there, std::uint32_t count) {
    std::vector<RowMove> moves;
    append_moves({.begin = static_cast<Position>(there),
                  .length = count,
                  .source_begin = static_cast<Position>(at),
                  .first_row = at,
                  .blocks = from.table},
                 to.table, block_size_, moves);
    splice->move(moves);
  }

 private:
  std::ptrdiff_t vocabulary_;
  std::uint32_t block_size_;

 public:
  ArenaDriver driver;
  std::unique_ptr<Splice> splice;
};

DriverOptions options_of(const Subject& subject, std::uint32_t block_size, std::uint32_t threads) {
  return {.thread_count = threads,
          .block_size = block_size,
          .block_count = 2048 / block_size,
          .format = subject.format};
}

// Where stored rows can be gone on from at the borders of tiles only, whole tiles are computed.
TEST_P(SpliceProperty, RowsWithGapsAreThoseOfAFullPrefill) {
  const Model& model = model_of(GetParam().name);
  for (const Kernels kernels : {Kernels::kCpu, Kernels::kGgml}) {
    DriverOptions options = options_of(GetParam(), 32, kernels == Kernels::kCpu ? 2 : 1);
    options.kernels = kernels;
    Bench bench(model, options);
    const DrivenSequence sequence = bench.open(random_tokens(model, kLength, 1));
    const std::vector<float> cold = bench.run(sequence, range(0, kLength));
    Rng rng(2);
    const auto step =
        static_cast<Position>(kernels::reuse_step_tokens(bench.driver.arena().layout()));
    for (const std::uint64_t one_in : {2U, 10U, 60U}) {
      std::vector<Position> rows;
      bool chosen = false;
      for (Position row = 0; row < static_cast<Position>(kLength); ++row) {
        if (row % step == 0) chosen = rng.below(one_in) == 0;
        if (chosen) rows.push_back(row);
      }
      EXPECT_EQ(bench.run(sequence, rows, 7 + rng.below(200)), bench.rows_of(cold, rows))
          << "one row in " << one_in;
    }
  }
}

TEST_P(SpliceProperty, RecomputingAllOfAMovedSegmentIsAFullPrefill) {
  const Model& model = model_of(GetParam().name);
  Rng rng(3);
  for (const std::uint32_t block_size : {16U, 64U}) {
    Bench bench(model, options_of(GetParam(), block_size, 1));
    const TokenList segment = random_tokens(model, 150, 4);
    const DrivenSequence source = bench.open(random_tokens(model, 83, 5) + segment);
    bench.run(source, range(0, 233));
    const DrivenSequence target =
        bench.open(random_tokens(model, 41, 6) + segment + random_tokens(model, 30, 7));
    bench.move(source, 83, target, 41, 150);
    const DrivenSequence alone = bench.open(target.tokens);
    const std::vector<float> cold = bench.run(alone, range(0, 221));
    EXPECT_EQ(bench.run(target, range(0, 221), 1 + rng.below(100)), cold);
  }
}

TEST_P(SpliceProperty, ASegmentAtItsOldPlaceBehindItsOldPrefixIsAFullPrefill) {
  const Model& model = model_of(GetParam().name);
  Bench bench(model, options_of(GetParam(), 16, 2));
  const TokenList shared = random_tokens(model, 200, 8);
  const DrivenSequence source = bench.open(shared);
  bench.run(source, range(0, 200), 64);
  const DrivenSequence target = bench.open(shared + random_tokens(model, 50, 9));
  // Not at the border of a block, and the prefix comes as a segment as well. Where bits depend on
  // the beginning of a tile, what follows begins at one.
  const std::uint32_t step = kernels::reuse_step_tokens(bench.driver.arena().layout());
  const std::uint32_t end = 177 / step * step;
  bench.move(source, 77, target, 77, end - 77);
  bench.move(source, 0, target, 0, 77);
  const std::vector<float> cold = bench.run(bench.open(target.tokens), range(0, 250));
  EXPECT_EQ(bench.run(target, range(end, 250)), bench.rows_of(cold, range(end, 250)));
}

double largest_of(std::initializer_list<const std::vector<float>*> rows) {
  double largest = 0.0;
  for (const auto* row : rows) {
    for (const float x : *row) largest = std::max(largest, std::fabs(double{x}));
  }
  return largest;
}

// The moved key is the rounded turn of a rounded key, the other one rounded alone. Rounding moves
// each value of a pair by at most u (float16: 2^-11 of it, else half a step of the spread row), and
// a turn spreads the errors of a pair by its norm: float16 gives 3 x 2^-11 of the pair's norm, the
// others (sqrt 2 + 2) half steps. FP32 sums and angles are below 2^-19 of the row's largest value.
TEST_P(SpliceProperty, AMovedKeyOfTheFirstLayerIsTheOneComputedThere) {
  const Model& model = model_of(GetParam().name);
  const ModelShape& shape = model.shape();
  Bench bench(model, options_of(GetParam(), 16, 1));
  const TokenList segment = random_tokens(model, 70, 10);
  for (const auto& [at, there] : {std::pair{90U, 21U}, {21U, 90U}, {5U, 260U}, {40U, 41U}}) {
    bench.driver.reset();
    const DrivenSequence source = bench.open(random_tokens(model, at, 11) + segment);
    const DrivenSequence target = bench.open(random_tokens(model, there, 12) + segment);
    const DrivenSequence moved = bench.open(target.tokens);
    bench.run(source, range(0, at + 70));
    bench.run(target, range(0, there + 70));
    bench.move(source, at, moved, there, 70);
    for (std::uint32_t i = 0; i < 70; ++i) {
      const auto slot = [&](const DrivenSequence& sequence, std::uint32_t position) {
        return kv::slot_of(sequence.table, static_cast<Position>(position), 16);
      };
      for (std::uint32_t head = 0; head < shape.kv_head_count; ++head) {
        std::vector<float> wanted(shape.key_dim), got(shape.key_dim), from(shape.key_dim);
        std::vector<float> wanted_value(shape.value_dim), value(shape.value_dim);
        KvArena& arena = bench.driver.arena();
        arena.read_row(0, head, slot(source, at + i), from.data(), nullptr);
        arena.read_row(0, head, slot(target, there + i), wanted.data(), wanted_value.data());
        arena.read_row(0, head, slot(moved, there + i), got.data(), value.data());
        ASSERT_EQ(value, wanted_value);
        const double largest = largest_of({&from, &wanted, &got});
        double spread_largest = 0.0;
        for (const std::vector<float>* row : {&from, &wanted, &got}) {
          const std::uint32_t block = arena.layout().key_block;
          spread_largest = std::max(spread_largest,
                                    kernels::largest_magnitude(kernels::plain_spread(*row, block)));
        }
        const std::uint32_t pairs = shape.rope.dimensions / 2;
        for (std::uint32_t d = 0; d < shape.key_dim; ++d) {
          double bound = largest * 0x1p-19;
          if (GetParam().format != KvFormat::kF16) {
            // The widest step of 4 bits, with what its scale cuts off, is a quarter of the largest
            // value.
            const double step = GetParam().format == KvFormat::kQ4 ? 1.0 / 4.0 : 1.0 / 127.0;
            bound += (std::sqrt(2.0) + 2.0) * 0.5 * spread_largest * step;
          } else {
            const std::uint32_t other = d >= 2 * pairs ? d
                                        : shape.rope.layout == RopeLayout::kInterleaved
                                            ? d ^ 1U
                                            : (d < pairs ? d + pairs : d - pairs);
            bound += 3 * 0x1p-11 * std::hypot(double{from[d]}, double{from[other]}) + 0x1p-23;
          }
          ASSERT_LE(std::fabs(double{got[d]} - wanted[d]), bound)
              << at << " to " << there << ", row " << i << ", dim " << d;
        }
      }
    }
  }
}

// Against the formula, for every layer of models whose positions are not stretched: Gemma's global
// and local layers turn at different speeds.
TEST(Splice, EveryLayerTurnsItsRotaryDimensionsWithItsOwnBase) {
  for (const char* name : {"tiny-llama", "tiny-qwen3", "tiny-gemma3", "tiny-partial"}) {
    const Model& model = model_of(name);
    const ModelShape& shape = model.shape();
    Bench bench(model, {.block_count = 128});
    const DrivenSequence source = bench.open(random_tokens(model, 60, 14));
    const DrivenSequence moved = bench.open(random_tokens(model, 1000, 14));
    bench.run(source, range(0, 60));
    bench.move(source, 3, moved, 900, 50);
    const std::uint32_t pairs = shape.rope.dimensions / 2;
    for (std::uint32_t layer = 0; layer < shape.layer_count; ++layer) {
      const double base = shape.is_local_layer(layer) ? shape.rope.base_local : shape.rope.base;
      for (std::uint32_t i = 0; i < 50; ++i) {
        std::vector<float> from(shape.key_dim), got(shape.key_dim);
        const KvArena& arena = bench.driver.arena();
        arena.read_row(layer, 0, kv::slot_of(source.table, static_cast<Position>(3 + i), 16),
                       from.data(), nullptr);
        arena.read_row(layer, 0, kv::slot_of(moved.table, static_cast<Position>(900 + i), 16),
                       got.data(), nullptr);
        const double bound = largest_of({&from}) * (0x1p-10 + 0x1p-19);
        for (std::uint32_t p = 0; p < pairs; ++p) {
          const bool halves = shape.rope.layout == RopeLayout::kHalves;
          const std::size_t a = halves ? p : 2 * p, b = halves ? p + pairs : 2 * p + 1;
          const double angle = 897.0 * std::pow(base, -2.0 * p / shape.rope.dimensions);
          ASSERT_NEAR(got[a], from[a] * std::cos(angle) - from[b] * std::sin(angle), bound) << name;
          ASSERT_NEAR(got[b], from[a] * std::sin(angle) + from[b] * std::cos(angle), bound) << name;
        }
        for (std::uint32_t d = 2 * pairs; d < shape.key_dim; ++d) ASSERT_EQ(got[d], from[d]);
      }
    }
  }
}

TEST_P(SpliceProperty, TheMassIsTheWeightOfAllHeadsAndChangesNoLogit) {
  const Model& model = model_of(GetParam().name);
  const ModelShape& shape = model.shape();
  constexpr std::uint32_t kRows = 5;
  std::vector<std::vector<float>> masses;
  std::vector<float> plain;
  for (const std::uint32_t threads : {1U, 3U}) {
    Bench bench(model, options_of(GetParam(), 16, threads));
    const DrivenSequence sequence = bench.open(random_tokens(model, kLength, 13));
    BatchOutput last;
    if (plain.empty()) plain = bench.run(sequence, range(0, kLength));
    EXPECT_EQ(bench.run(sequence, range(0, kLength), 100 * threads, &last, kRows), plain);
    ASSERT_EQ(last.mass.size(), 1U);
    ASSERT_EQ(last.mass[0].length, kLength);
    masses.push_back(last.mass[0].weights);
    ASSERT_EQ(masses[0].size(), std::size_t{shape.layer_count} * kLength);
    for (std::uint32_t layer = 0; layer < shape.layer_count; ++layer) {
      const auto first = masses.back().begin() + static_cast<std::ptrdiff_t>(std::size_t{layer} * kLength);
      EXPECT_NEAR(std::accumulate(first, first + kLength, 0.0), kRows * shape.head_count, 1e-3);
      if (!shape.is_local_layer(layer)) continue;
      const std::uint32_t seen_from = kLength - kRows + 1 - shape.sliding_window;
      EXPECT_EQ(std::accumulate(first, first + seen_from, 0.0), 0.0);
      EXPECT_GT(*(first + seen_from), 0.0F);
    }
  }
  EXPECT_EQ(masses[0], masses[1]);
}

TEST_P(SpliceProperty, TheMassOfLaterLayersAloneIsTheSame) {
  const Model& model = model_of(GetParam().name);
  const std::uint32_t layers = model.shape().layer_count;
  Bench bench(model, options_of(GetParam(), 16, 2));
  const DrivenSequence sequence = bench.open(random_tokens(model, kLength, 14));
  BatchOutput all, later;
  const std::vector<float> logits = bench.run(sequence, range(0, kLength), kLength, &all, 5);
  for (std::uint32_t first = 1; first < layers; ++first) {
    EXPECT_EQ(bench.run(sequence, range(0, kLength), kLength, &later, 5, first), logits);
    const std::vector<float>& whole = all.mass.at(0).weights;
    const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(std::size_t{first} * kLength);
    EXPECT_EQ(later.mass.at(0).weights, std::vector<float>(begin, whole.end()));
  }
}

TEST(Splice, TheReferenceOperatorsSayThatTheyGiveNoMass) {
  const Model& model = model_of("tiny-llama");
  ArenaDriver driver(model, {.kernels = Kernels::kGgml});
  DrivenSequence sequence{random_tokens(model, 4, 1), 0, {}};
  driver.grow(sequence, 4);
  Batch batch;
  batch.sequences.push_back({&sequence.table, 1});
  batch.rows.push_back({.token = sequence.tokens[0],
                        .slot = kv::slot_of(sequence.table, 0, 16),
                        .wants_logits = true,
                        .wants_mass = true});
  BatchOutput output;
  const auto done = driver.executor().run(batch, output);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, Code::kUnsupported);
}

TEST(Splice, ARunIsCutAtTheBordersOfBothItsBlocks) {
  const kv::BlockTable from = {BlockId{5}, BlockId{2}, BlockId{9}}, to = {BlockId{1}, BlockId{7}};
  std::vector<RowMove> moves;
  append_moves({.begin = 3, .length = 25, .source_begin = 10, .first_row = 10, .blocks = from}, to,
               16, moves);
  ASSERT_EQ(moves.size(), 4U);
  std::uint32_t rows = 0;
  for (const RowMove& move : moves) {
    EXPECT_EQ(move.distance, -7);
    EXPECT_EQ(move.from, kv::slot_of(from, static_cast<Position>(10 + rows), 16));
    EXPECT_EQ(move.to, kv::slot_of(to, static_cast<Position>(3 + rows), 16));
    EXPECT_LE(move.from % 16 + move.row_count, 16U);
    EXPECT_LE(move.to % 16 + move.row_count, 16U);
    rows += move.row_count;
  }
  EXPECT_EQ(rows, 25U);
}

}  // namespace
}  // namespace refrain::model
