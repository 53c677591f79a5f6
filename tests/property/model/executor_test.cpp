// Bitwise exactness of the executor (REQUIREMENTS A1, DESIGN section 5): whatever the chunks, the
// batch mates, the thread count, the block size, and whether blocks were shared or copied, the
// logits of a sequence are those of a cold, lone, one-shot run; compared with ==, for all
// architectures, on sequences that cross splits of the attention kernel and sliding windows.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdlib>
#include <map>

#include "base/rng.h"
#include "support/arena_driver.h"
#include "support/tiny_models.h"

namespace refrain::model {
namespace {

using test::ArenaDriver;
using test::DrivenSequence;
using test::DriverOptions;
using test::Kernels;
using test::model_of;
using test::Piece;
using test::random_tokens;

// Runs per model and property; each takes tens of milliseconds. RC_PARAMS asks for more.
[[maybe_unused]] const int kFewerRuns = setenv("RC_PARAMS", "max_success=4", 0);

// Architectures, one of each family of vec_dot kernels, and what changes positions.
const std::vector<std::string> kModels = {
    "tiny-llama",  "tiny-qwen2",   "tiny-qwen3",  "tiny-gemma3", "tiny-F16",  "tiny-BF16",
    "tiny-Q4_0",   "tiny-Q4_1",    "tiny-Q8_0",   "tiny-Q4_K",   "tiny-Q6_K", "tiny-yarn",
    "tiny-llama3", "tiny-partial", "tiny-head80", "tiny-mha",    "tiny-mqa"};

using Logits = std::vector<float>;  // [tokens, vocabulary]

Logits cold(const Model& model, const TokenList& tokens, KvFormat format = KvFormat::kF16,
            Kernels kernels = Kernels::kCpu) {
  ArenaDriver driver(model, {.format = format, .kernels = kernels});
  DrivenSequence sequence{tokens, 0, {}};
  return driver.step({{&sequence, static_cast<std::uint32_t>(tokens.size())}});
}

// Rows [from, to) of `part` against the same rows of the cold run.
void expect_same(const float* part, const Logits& whole, std::uint32_t from, std::uint32_t to,
                 std::size_t vocabulary, const std::string& where) {
  for (std::size_t i = 0; i < (to - from) * vocabulary; ++i) {
    const float expected = whole[from * vocabulary + i];
    if (part[i] == expected) continue;
    RC_FAIL(where + ": row " + std::to_string(from + i / vocabulary) + " token " +
            std::to_string(i % vocabulary) + ": " + std::to_string(part[i]) + " instead of " +
            std::to_string(expected));
  }
}

class ExecutorProperty : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Models, ExecutorProperty, ::testing::ValuesIn(kModels),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

struct Running {
  DrivenSequence sequence;
  Logits expected;
};

// Runs the sequences to their ends in random pieces, several per batch, and compares every row.
void run_mixed(const Model& model, ArenaDriver& driver, std::vector<Running>& all, Rng& rng) {
  const std::size_t vocabulary = model.shape().vocabulary_size;
  while (true) {
    std::vector<Piece> pieces;
    std::vector<Running*> members;
    for (Running& one : all) {
      const auto left = static_cast<std::uint32_t>(one.sequence.tokens.size()) - one.sequence.done;
      if (left == 0 || rng.below(4) == 0) continue;
      const std::uint64_t most = rng.below(2) == 0 ? 1 : 1 + rng.below(100);  // decode or prefill
      pieces.push_back({&one.sequence, std::min(left, static_cast<std::uint32_t>(most))});
      members.push_back(&one);
    }
    const bool finished = std::all_of(all.begin(), all.end(), [](const Running& one) {
      return one.sequence.done == one.sequence.tokens.size();
    });
    if (finished) return;
    if (pieces.empty()) continue;
    const Logits& logits = driver.step(pieces);
    std::size_t row = 0;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const std::uint32_t end = members[i]->sequence.done;
      expect_same(logits.data() + row * vocabulary, members[i]->expected, end - pieces[i].row_count,
                  end, vocabulary, "mixed batch");
      row += pieces[i].row_count;
    }
  }
}

TEST_P(ExecutorProperty, ChunksBatchMatesThreadsAndBlockSizesChangeNoBit) {
  const Model& model = model_of(GetParam());
  ASSERT_TRUE(rc::check("mixed batches equal cold runs", [&] {
    Rng rng(*rc::gen::arbitrary<std::uint64_t>());
    const Kernels kernels = rng.below(4) == 0 ? Kernels::kGgml : Kernels::kCpu;
    // The reference on one: its threads wait for each other by spinning.
    const std::uint32_t threads =
        kernels == Kernels::kGgml ? 1 : static_cast<std::uint32_t>(1 + rng.below(3));
    const std::uint32_t block_size = 16U << rng.below(3);
    const KvFormat format = kernels::kv_formats()[rng.below(kernels::kKvFormatCount)].format;
    ArenaDriver driver(model, {threads, block_size, 2048 / block_size, 512, format, kernels});
    std::vector<Running> all(1 + rng.below(3));
    for (Running& one : all) {
      const auto length =
          static_cast<std::uint32_t>(rng.below(3) == 0 ? 250 + rng.below(60) : 1 + rng.below(90));
      one.sequence.tokens = random_tokens(model, length, rng.next());
      one.expected = cold(model, one.sequence.tokens, format, kernels);
    }
    run_mixed(model, driver, all, rng);
  }));
}

TEST_P(ExecutorProperty, SharedAndCopiedBlocksGiveTheLogitsOfAColdRun) {
  const Model& model = model_of(GetParam());
  const std::size_t vocabulary = model.shape().vocabulary_size;
  ASSERT_TRUE(rc::check("a prefix from another sequence equals a cold run", [&] {
    Rng rng(*rc::gen::arbitrary<std::uint64_t>());
    const std::uint32_t block_size = 16U << rng.below(3);
    const KvFormat format = kernels::kv_formats()[rng.below(kernels::kKvFormatCount)].format;
    ArenaDriver driver(model, {1, block_size, 2048 / block_size, 512, format});
    auto prefix = static_cast<std::uint32_t>(16 + rng.below(150));
    prefix -= prefix % kernels::reuse_step_tokens(driver.arena().layout());
    Running first, second;
    first.sequence.tokens = random_tokens(model, prefix + 20, rng.next());
    first.expected = cold(model, first.sequence.tokens, format);
    second.sequence.tokens = random_tokens(model, prefix + 30, rng.next());
    std::copy_n(first.sequence.tokens.begin(), prefix, second.sequence.tokens.begin());
    second.expected = cold(model, second.sequence.tokens, format);

    std::vector<Running> all;
    all.push_back(std::move(first));
    run_mixed(model, driver, all, rng);
    // Full blocks are shared, the partial one is copied row by row.
    DrivenSequence& other = second.sequence;
    const kv::BlockTable& table = all[0].sequence.table;
    other.table.assign(table.begin(), table.begin() + prefix / block_size);
    if (prefix % block_size != 0) {
      driver.grow(other, prefix);
      driver.executor().copy_rows(
          {table[prefix / block_size], other.table.back(), prefix % block_size});
    }
    other.done = prefix;
    const auto rest = static_cast<std::uint32_t>(other.tokens.size()) - prefix;
    const Logits& logits = driver.step({{&other, rest}});
    expect_same(logits.data(), second.expected, prefix, prefix + rest, vocabulary, "warm");
  }));
}

TEST(Executor, LongSequencesCrossAttentionSplitsWithoutAChange) {
  for (const char* name : {"tiny-llama", "tiny-gemma3"}) {
    const Model& model = model_of(name);
    ArenaDriver driver(model, {2, 32, 64, 512});
    Rng rng(5);
    std::vector<Running> all(1);
    // 512 rows at most fit one step of the cold run.
    all[0].sequence.tokens = random_tokens(model, 512, 17);
    all[0].expected = cold(model, all[0].sequence.tokens);
    run_mixed(model, driver, all, rng);
  }
}

// What `refrain eval kv` does: one executor, arenas of several formats that take turns (B3).
TEST(Executor, ArenasThatTakeTurnsGiveTheLogitsOfTheirOwnFormat) {
  const Model& model = model_of("tiny-llama");
  const std::size_t vocabulary = model.shape().vocabulary_size;
  const TokenList tokens = random_tokens(model, 90, 8);
  ArenaDriver driver(model, {1, 16, 16, 512, KvFormat::kF16});
  const auto other = KvArena::create(model.shape(), KvFormat::kQ4, 16, 16).value();
  const Logits expected = cold(model, tokens), expected_q4 = cold(model, tokens, KvFormat::kQ4);
  ASSERT_NE(expected, expected_q4);
  DrivenSequence first{tokens, 0, {}}, second{tokens, 0, {}};
  for (const std::uint32_t count : {30U, 41U, 19U}) {
    const std::uint32_t begin = first.done, end = begin + count;
    expect_same(driver.step({{&first, count}}).data(), expected, begin, end, vocabulary, "f16");
    driver.arena().swap(*other);
    expect_same(driver.step({{&second, count}}).data(), expected_q4, begin, end, vocabulary, "q4");
    driver.arena().swap(*other);
  }
}

TEST(Executor, ThreadsThatShareALongDecodeChangeNoBit) {
  for (const KvFormat format : {KvFormat::kF16, KvFormat::kQ8, KvFormat::kQ8Q4, KvFormat::kQ4}) {
    const Model& model = model_of("tiny-llama");
    const TokenList tokens = random_tokens(model, 1100, 8);
    std::vector<Logits> last;
    for (const std::uint32_t threads : {1U, 2U}) {
      ArenaDriver driver(model, {threads, 16, 80, 512, format});
      DrivenSequence sequence{tokens, 0, {}};
      for (const std::uint32_t count : {512U, 512U, 75U}) driver.step({{&sequence, count}});
      last.push_back(driver.step({{&sequence, 1}}));
    }
    EXPECT_EQ(last[0], last[1]);
  }
}

TEST(Executor, HiddenStatesComeOnlyForRowsThatWantThemAndLogitsLikewise) {
  const Model& model = model_of("tiny-llama");
  ArenaDriver driver(model, {});
  const TokenList tokens = random_tokens(model, 5, 3);
  kv::BlockTable table = {BlockId{4}};
  Batch batch;
  batch.sequences.push_back({&table, 5});
  for (Position p = 0; p < 5; ++p) {
    batch.rows.push_back({tokens[p], p, 0, kv::slot_of(table, p, 16), p == 1 || p == 4, p >= 3});
  }
  BatchOutput output;
  ASSERT_TRUE(driver.executor().run(batch, output).ok());
  const std::size_t vocabulary = model.shape().vocabulary_size, dim = model.shape().embedding_dim;
  ASSERT_EQ(output.logits.size(), 2 * vocabulary);
  ASSERT_EQ(output.hidden.size(), 2 * dim);
  const Logits whole = cold(model, tokens);
  EXPECT_TRUE(std::equal(output.logits.begin(), output.logits.begin() + vocabulary,
                         whole.begin() + vocabulary));
  EXPECT_TRUE(std::equal(output.logits.begin() + vocabulary, output.logits.end(),
                         whole.begin() + 4 * vocabulary));
  for (BatchRow& row : batch.rows) row.wants_logits = row.wants_hidden = false;
  ASSERT_TRUE(driver.executor().run(batch, output).ok());
  EXPECT_TRUE(output.logits.empty() && output.hidden.empty());
}

TEST(Executor, ATokenOutsideTheVocabularyIsAnErrorAndLeavesTheExecutorUsable) {
  const Model& model = model_of("tiny-llama");
  ArenaDriver driver(model, {});
  kv::BlockTable table = {BlockId{0}};
  BatchOutput output;
  for (const std::int32_t token : {-1, static_cast<std::int32_t>(model.shape().vocabulary_size)}) {
    Batch batch;
    batch.sequences.push_back({&table, 1});
    batch.rows.push_back({TokenId{token}, 0, 0, 0, true, false});
    const auto result = driver.executor().run(batch, output);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, Code::kInternal);
  }
  const TokenList tokens = random_tokens(model, 3, 1);
  DrivenSequence sequence{tokens, 0, {}};
  EXPECT_EQ(driver.step({{&sequence, 3}}), cold(model, tokens));
}

}  // namespace
}  // namespace refrain::model
