// Queries that rows give away, and what is expected of later ones (B4, C14, expected_attention): on
// whole tiny models, against attention itself and against a plain reference in double precision.
#include "model/expected_attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/arena_driver.h"
#include "support/tiny_models.h"

namespace refrain::model {
namespace {

using test::ArenaDriver;
using test::model_of;
using test::random_tokens;

constexpr std::uint32_t kBlockSize = 16;
constexpr std::uint32_t kRows = 300;
// With grouped heads, norms of queries, two rotations and a window, padded dims, biases and each
// scaling of positions, and rotations of a part of the dims.
constexpr const char* kModels[] = {"tiny-llama", "tiny-qwen3",  "tiny-gemma3", "tiny-head80",
                                   "tiny-yarn",  "tiny-linear", "tiny-llama3", "tiny-partial"};
constexpr KvFormat kFormats[] = {KvFormat::kF16, KvFormat::kQ8};

kv::BlockTable some_table() {
  kv::BlockTable table;
  for (std::uint32_t i = 0; i < (kRows + kBlockSize - 1) / kBlockSize; ++i)
    table.push_back(BlockId{(i * 7 + 3) % 23});
  return table;
}

std::vector<std::size_t> slots_of(const kv::BlockTable& table) {
  std::vector<std::size_t> slots;
  for (std::uint32_t row = 0; row < kRows; ++row)
    slots.push_back(kv::slot_of(table, static_cast<Position>(row), kBlockSize));
  return slots;
}

// Computes tokens [begin, end); those from `asked` on give their queries, the last one its mass.
BatchOutput run(ArenaDriver& driver, const kv::BlockTable& table, const TokenList& tokens,
                std::uint32_t begin, std::uint32_t end, std::uint32_t asked) {
  Batch batch;
  batch.mass_kind = MassKind::kHeadSum;
  batch.sequences.push_back({.table = &table, .length = end});
  for (std::uint32_t row = begin; row < end; ++row) {
    const auto position = static_cast<Position>(row);
    batch.rows.push_back({.token = tokens[row],
                          .position = position,
                          .sequence = 0,
                          .slot = kv::slot_of(table, position, kBlockSize),
                          .wants_logits = row + 1 == end,
                          .wants_mass = row + 1 == end,
                          .wants_queries = row >= asked});
  }
  BatchOutput output;
  CHECK(driver.executor().run(batch, output).ok(), "the step failed");
  return output;
}

std::vector<Position> positions(std::uint32_t begin, std::uint32_t end) {
  std::vector<Position> list;
  for (std::uint32_t row = begin; row < end; ++row) list.push_back(static_cast<Position>(row));
  return list;
}

std::uint32_t window_of(const ModelShape& shape, std::uint32_t layer) {
  const bool local = shape.is_local_layer(layer) || shape.global_layer_period == 0;
  return local ? shape.sliding_window : 0;
}

// ---- the reference: queries one by one, no covariance, all in double precision

class Reference {
 public:
  Reference(const Model& model, std::span<const float> queries, std::uint32_t first, bool spread)
      : shape_(model.shape()), rotary_(model), queries_(queries), first_(first), spread_(spread) {}

  // The mean of what `distances` turn by.
  struct Turn {
    std::vector<double> cosine, sine;
  };
  Turn mean_turn(std::uint32_t layer, std::span<const Position> distances) const {
    const RotaryFrequencies& frequencies =
        shape_.is_local_layer(layer) ? rotary_.local() : rotary_.global();
    const std::size_t pairs = frequencies.dimensions() / 2;
    Turn mean{std::vector<double>(pairs, 0.0), std::vector<double>(pairs, 0.0)};
    std::vector<float> cosine(pairs), sine(pairs);
    for (const Position distance : distances) {
      frequencies.turn(distance, cosine.data(), sine.data());
      for (std::size_t i = 0; i < pairs; ++i) {
        mean.cosine[i] += double{cosine[i]} / static_cast<double>(distances.size());
        mean.sine[i] += double{sine[i]} / static_cast<double>(distances.size());
      }
    }
    return mean;
  }

  std::vector<double> turned_back(std::vector<double> x, const Turn& by) const {
    for (std::size_t i = 0; i < by.cosine.size(); ++i) {
      const bool halves = shape_.rope.layout == RopeLayout::kHalves;
      double& a = x[halves ? i : 2 * i];
      double& b = x[halves ? i + by.cosine.size() : 2 * i + 1];
      const double was = a;
      a = a * by.cosine[i] + b * by.sine[i];
      b = b * by.cosine[i] - was * by.sine[i];
    }
    return x;
  }

  // Before the rotation.
  std::vector<double> query(std::uint32_t layer, std::uint32_t row, std::uint32_t head) const {
    const std::size_t rows = kRows - first_, dim = shape_.key_dim;
    const float* from =
        queries_.data() + ((layer * rows + row - first_) * shape_.head_count + head) * dim;
    const Position at[] = {static_cast<Position>(row)};
    return turned_back({from, from + dim}, mean_turn(layer, at));
  }

  // Of all rows of a KV head, as ExpectedAttention::score().
  std::vector<double> scores(std::uint32_t layer, std::uint32_t kv_head, const KvArena& arena,
                             std::span<const std::size_t> slots) const {
    const std::uint32_t group = shape_.head_count / shape_.kv_head_count;
    const std::uint32_t window = window_of(shape_, layer);
    const Turn ahead = mean_turn(layer, positions(kRows, kRows + 512));
    std::vector<double> found(kRows, 0.0);
    for (std::uint32_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      std::vector<double> weights(kRows, 0.0), lengths(kRows, 0.0);
      double sum = 0;
      const auto queries = deviations(layer, head);
      for (std::uint32_t row = 4; row < kRows; ++row) {
        if (window > 0 && row + window <= kRows) continue;
        std::vector<float> key(shape_.key_dim), value(shape_.value_dim);
        arena.read_row(layer, kv_head, slots[row], key.data(), value.data());
        for (const float x : value) lengths[row] += double{x} * double{x};
        weights[row] = std::exp(logit(queries, key, ahead));
        sum += weights[row];
      }
      for (std::uint32_t row = 0; row < kRows; ++row)
        found[row] += weights[row] / sum * std::sqrt(lengths[row]) / group;
    }
    return found;
  }

 private:
  // The mean, then what each query is beside it.
  std::vector<std::vector<double>> deviations(std::uint32_t layer, std::uint32_t head) const {
    std::vector<std::vector<double>> found(1, std::vector<double>(shape_.key_dim, 0.0));
    for (std::uint32_t row = first_; row < kRows; ++row) {
      found.push_back(query(layer, row, head));
      for (std::size_t i = 0; i < shape_.key_dim; ++i)
        found[0][i] += found.back()[i] / (kRows - first_);
    }
    for (std::size_t at = 1; at < found.size(); ++at)
      for (std::size_t i = 0; i < shape_.key_dim; ++i) found[at][i] -= found[0][i];
    return found;
  }

  // (R q).k = q.(R^T k).
  double logit(const std::vector<std::vector<double>>& queries, std::span<const float> key,
               const Turn& ahead) const {
    const std::vector<double> back = turned_back({key.begin(), key.end()}, ahead);
    const auto dot = [&](const std::vector<double>& x) {
      double sum = 0;
      for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * back[i];
      return sum * double{shape_.attention_scale};
    };
    double variance = 0;
    for (std::size_t at = 1; at < queries.size() && spread_; ++at) {
      const double product = dot(queries[at]);
      variance += product * product / static_cast<double>(queries.size() - 1);
    }
    return dot(queries[0]) + variance / 2;
  }

  const ModelShape& shape_;
  const ModelRotary rotary_;
  const std::span<const float> queries_;
  const std::uint32_t first_;
  const bool spread_;
};

class ExpectedAttentionProperty : public ::testing::TestWithParam<const char*> {};

// What they pay to each key is what attention says they pay.
TEST_P(ExpectedAttentionProperty, QueriesAreThoseThatMeetTheKeys) {
  const Model& model = model_of(GetParam());
  const ModelShape& shape = model.shape();
  ArenaDriver driver(model, {1, kBlockSize, 64, 512, KvFormat::kF16});
  const kv::BlockTable table = some_table();
  const std::vector<std::size_t> slots = slots_of(table);
  const BatchOutput output =
      run(driver, table, random_tokens(model, kRows, 1), 0, kRows, kRows - 1);
  const std::size_t dim = shape.key_dim, group = shape.head_count / shape.kv_head_count;
  ASSERT_EQ(output.queries.size(), shape.layer_count * shape.head_count * dim);
  for (std::uint32_t layer = 0; layer < shape.layer_count; ++layer) {
    const std::uint32_t window = window_of(shape, layer);
    for (std::uint32_t head = 0; head < shape.kv_head_count; ++head) {
      std::vector<double> expected(kRows, 0.0);
      for (std::size_t of_group = 0; of_group < group; ++of_group) {
        const float* query =
            output.queries.data() + (layer * shape.head_count + head * group + of_group) * dim;
        std::vector<double> weights(kRows, 0.0);
        double sum = 0;
        for (std::uint32_t row = 0; row < kRows; ++row) {
          if (window > 0 && row + window < kRows) continue;
          std::vector<float> key(dim);
          driver.arena().read_row(layer, head, slots[row], key.data(), nullptr);
          double product = 0;
          for (std::size_t i = 0; i < dim; ++i) product += double{query[i]} * double{key[i]};
          weights[row] = std::exp(product * double{shape.attention_scale});
          sum += weights[row];
        }
        for (std::uint32_t row = 0; row < kRows; ++row) expected[row] += weights[row] / sum;
      }
      const float* mass =
          output.mass.at(0).weights.data() + (layer * shape.kv_head_count + head) * kRows;
      for (std::uint32_t row = 0; row < kRows; ++row)
        ASSERT_NEAR(double{mass[row]}, expected[row], 1e-3 * (1e-3 + expected[row]))
            << "layer " << layer << " head " << head << " row " << row;
    }
  }
}

// In the first layer a query depends on its token alone, once it is turned back.
TEST_P(ExpectedAttentionProperty, QueriesTurnedBackAreThoseOfTheirTokens) {
  const Model& model = model_of(GetParam());
  ArenaDriver driver(model, {1, kBlockSize, 64, 512, KvFormat::kF16});
  const TokenList same(kRows, random_tokens(model, 1, 2)[0]);
  const BatchOutput output = run(driver, some_table(), same, 0, kRows, 0);
  const Reference reference(model, output.queries, 0, true);
  for (std::uint32_t head = 0; head < model.shape().head_count; ++head) {
    const std::vector<double> first = reference.query(0, 0, head);
    for (const std::uint32_t row : {1U, 17U, kRows - 1}) {
      const std::vector<double> other = reference.query(0, row, head);
      for (std::size_t i = 0; i < first.size(); ++i) EXPECT_NEAR(first[i], other[i], 1e-4);
    }
  }
}

TEST_P(ExpectedAttentionProperty, ScoresAreThoseOfThePlainReference) {
  const Model& model = model_of(GetParam());
  const ModelShape& shape = model.shape();
  constexpr std::uint32_t kFirst = 44;
  for (const KvFormat format : kFormats) {
    for (const bool spread : {true, false}) {
      ArenaDriver driver(model, {1, kBlockSize, 64, 512, format});
      const kv::BlockTable table = some_table();
      const std::vector<std::size_t> slots = slots_of(table);
      const BatchOutput output =
          run(driver, table, random_tokens(model, kRows, 3), 0, kRows, kFirst);
      ExpectedAttention expected(model, spread ? ExpectedAttention::kMostCovariance : 0);
      expected.add(output.queries, positions(kFirst, kRows));
      expected.expect_from(kRows);
      const Reference reference(model, output.queries, kFirst, spread);
      std::vector<float> scores(kRows);
      for (std::uint32_t layer = 0; layer < shape.layer_count; ++layer) {
        for (std::uint32_t head = 0; head < shape.kv_head_count; ++head) {
          expected.score(layer, head, driver.arena(), slots, scores);
          const std::vector<double> plain = reference.scores(layer, head, driver.arena(), slots);
          for (std::uint32_t row = 0; row < kRows; ++row)
            ASSERT_NEAR(double{scores[row]}, plain[row], 1e-3 * plain[row])
                << kernels::kv_format_name(format) << " layer " << layer << " head " << head
                << " row " << row;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ExpectedAttentionProperty, ::testing::ValuesIn(kModels),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Pieces of rows are the same bits as all at once, and asking changes no result.
TEST(ExpectedAttention, PiecesAreTheWholeAndAskingChangesNothing) {
  const Model& model = model_of("tiny-llama");
  const TokenList tokens = random_tokens(model, kRows, 5);
  const kv::BlockTable table = some_table();
  ArenaDriver driver(model, {1, kBlockSize, 64, 512, KvFormat::kF16});
  const BatchOutput silent = run(driver, table, tokens, 0, kRows, kRows);
  EXPECT_TRUE(silent.queries.empty());
  const BatchOutput asked = run(driver, table, tokens, 0, kRows, 100);
  EXPECT_EQ(asked.logits, silent.logits);
  ExpectedAttention whole(model), pieces(model);
  whole.add(asked.queries, positions(100, kRows));
  for (std::uint32_t begin = 100; begin < kRows; begin += 80) {
    const std::uint32_t end = std::min(kRows, begin + 80);
    pieces.add(run(driver, table, tokens, begin, end, begin).queries, positions(begin, end));
  }
  whole.expect_from(kRows);
  pieces.expect_from(kRows);
  const std::vector<std::size_t> slots = slots_of(table);
  std::vector<float> scores(kRows), others(kRows);
  for (std::uint32_t layer = 0; layer < model.shape().layer_count; ++layer) {
    whole.score(layer, 0, driver.arena(), slots, scores);
    pieces.score(layer, 0, driver.arena(), slots, others);
    EXPECT_EQ(scores, others);
  }
}

// The reference operators hide their queries, and say so.
TEST(ExpectedAttention, GgmlRefuses) {
  const Model& model = model_of("tiny-llama");
  ArenaDriver driver(model, {1, kBlockSize, 64, 512, KvFormat::kF16, test::Kernels::kGgml});
  const kv::BlockTable table = some_table();
  Batch batch;
  batch.sequences.push_back({.table = &table, .length = 1});
  batch.rows.push_back({.token = TokenId{1},
                        .slot = kv::slot_of(table, 0, kBlockSize),
                        .wants_logits = true,
                        .wants_queries = true});
  BatchOutput output;
  const auto refused = driver.executor().run(batch, output);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
}

}  // namespace
}  // namespace refrain::model
