// `refrain eval exact` over the tiny models (A2, DESIGN section 5), and that it can fail: executors
// with one small fault each must be found out, with the place of the fault.
#include <gtest/gtest.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "cli/eval_exact.h"
#include "cli/exact_run.h"
#include "cli/options.h"
#include "cli/parse.h"

namespace refrain::cli {
namespace {

struct Tiny {
  std::unique_ptr<model::Model> model;
  std::unique_ptr<text::Tokenizer> tokenizer;
};

std::string path_of(const std::string& name) {
  return std::string(REFRAIN_TEST_GENERATED) + "/" + name + ".gguf";
}

Tiny load(const std::string& name) {
  Tiny tiny;
  auto model = model::Model::load({.path = path_of(name)});
  CHECK(model.ok(), model.error().message);
  tiny.model = std::move(model).value();
  auto tokenizer = text::Tokenizer::create(tiny.model->vocabulary());
  CHECK(tokenizer.ok(), tokenizer.error().message);
  tiny.tokenizer = std::move(tokenizer).value();
  return tiny;
}

// Passes everything on; a subclass does one thing wrong.
class PassingExecutor : public model::Executor {
 public:
  explicit PassingExecutor(std::unique_ptr<model::Executor> inner) : inner_(std::move(inner)) {}
  Result<void> run(const model::Batch& batch, model::BatchOutput& output) override {
    return inner_->run(batch, output);
  }
  void copy_rows(const kv::BlockCopy& copy) override { inner_->copy_rows(copy); }
  std::string numerics() const override { return inner_->numerics(); }
  std::uint64_t scratch_bytes() const override { return inner_->scratch_bytes(); }
  std::uint32_t max_batch_rows() const override { return inner_->max_batch_rows(); }

 private:
  std::unique_ptr<model::Executor> inner_;
};

template <typename Faulty>
std::vector<ExecutorKind> kind_of() {
  const auto make =
      [](const model::Model& model, model::KvArena& arena,
         const model::ExecutorOptions& options) -> Result<std::unique_ptr<model::Executor>> {
    ASSIGN_OR_RETURN(auto inner, model::Executor::create_ggml(model, arena, options));
    return std::unique_ptr<model::Executor>(std::make_unique<Faulty>(std::move(inner)));
  };
  return {{"faulty", make}};
}

// The least error there is, in one value of one row, and only beside another sequence.
class BatchMateFault final : public PassingExecutor {
 public:
  using PassingExecutor::PassingExecutor;
  Result<void> run(const model::Batch& batch, model::BatchOutput& output) override {
    RETURN_IF_ERROR(PassingExecutor::run(batch, output));
    if (batch.sequences.size() < 2 || output.logits.size() < 8) return {};
    float& value = output.logits[7];
    value = std::nextafter(value, 1e9F);
    return {};
  }
};

// Forgets copy on write: the rows of a partial hit are whatever the block held before.
class CopyFault final : public PassingExecutor {
 public:
  using PassingExecutor::PassingExecutor;
  void copy_rows(const kv::BlockCopy& /*copy*/) override {}
};

// Writes the last row of a chunk into the slot before, as an off-by-one would.
class SlotFault final : public PassingExecutor {
 public:
  using PassingExecutor::PassingExecutor;
  Result<void> run(const model::Batch& batch, model::BatchOutput& output) override {
    model::Batch wrong = batch;
    for (model::BatchRow& row : wrong.rows)
      if (row.position % 16 == 15 && row.slot > 0 && wrong.rows.size() > 3) row.slot -= 1;
    return PassingExecutor::run(wrong, output);
  }
};

// As if the sign of a zero did not matter: equal with ==, but not bit for bit.
class ZeroFault final : public PassingExecutor {
 public:
  using PassingExecutor::PassingExecutor;
  Result<void> run(const model::Batch& batch, model::BatchOutput& output) override {
    RETURN_IF_ERROR(PassingExecutor::run(batch, output));
    const auto rows = static_cast<std::size_t>(
        std::count_if(batch.rows.begin(), batch.rows.end(),
                      [](const model::BatchRow& row) { return row.wants_logits; }));
    for (std::size_t i = 0; i < rows; ++i)
      output.logits[i * (output.logits.size() / rows) + 3] =
          batch.sequences.size() > 1 ? -0.0F : 0.0F;
    return {};
  }
};

ExactReport check(const Tiny& tiny, const std::vector<ExecutorKind>& kinds,
                  const ExactOptions& options) {
  auto report = check_exactness(*tiny.model, *tiny.tokenizer, kinds, options);
  CHECK(report.ok(), report.error().message);
  return std::move(report).value();
}

std::string failures_text(const ExactReport& report) {
  std::string text;
  for (const ExactFailure& failure : report.failures) {
    text += "trial " + std::to_string(failure.trial) + ": " + failure.findings.fault();
    if (failure.findings.first()) text += " " + describe(*failure.findings.first());
    text += "\n";
  }
  return text;
}

// Every architecture, every family of products, and what changes positions.
TEST(EvalExact, TwoHundredTrialsOverTheTinyModelsAreBitwiseEqual) {
  const std::vector<std::string> names = {
      "tiny-llama", "tiny-qwen2",  "tiny-qwen3",  "tiny-gemma3",  "tiny-F32",
      "tiny-F16",   "tiny-BF16",   "tiny-Q4_0",   "tiny-Q4_1",    "tiny-Q5_0",
      "tiny-Q5_1",  "tiny-Q8_0",   "tiny-Q4_K",   "tiny-Q5_K",    "tiny-Q6_K",
      "tiny-yarn",  "tiny-llama3", "tiny-head80", "tiny-partial", "tiny-short"};
  Coverage all;
  for (std::size_t i = 0; i < names.size(); ++i) {
    SCOPED_TRACE(names[i]);
    const ExactReport report =
        check(load(names[i]), executor_kinds(), {.seed = 100 + i, .trials = 10});
    EXPECT_EQ(report.equal(), 10U) << failures_text(report);
    all.add(report.coverage);
  }
  // The trials are worth something only if all this happened.
  EXPECT_GT(all.rows_compared, 10'000U);
  EXPECT_GT(all.cached_tokens, all.prompt_tokens / 10);
  EXPECT_GT(all.reply_rows, 100U);
  EXPECT_GT(all.copied_blocks, 50U);
  EXPECT_GT(all.evicted_blocks, 50U);
  EXPECT_GT(all.rejected_rows, 100U);
  EXPECT_GT(all.restarts, 10U);
  EXPECT_GT(all.engine_trials, 30U);
}

TEST(EvalExact, AnErrorOfOneBitBesideAnotherSequenceIsFound) {
  const Tiny tiny = load("tiny-llama");
  const ExactReport report = check(tiny, kind_of<BatchMateFault>(), {.seed = 1, .trials = 12});
  ASSERT_FALSE(report.failures.empty());
  EXPECT_LT(report.failures.size(), 12U) << "trials without batch mates are not at fault";
  for (const ExactFailure& failure : report.failures) {
    ASSERT_TRUE(failure.findings.first().has_value());
    const Mismatch& first = *failure.findings.first();
    EXPECT_EQ(first.token, 7U);
    EXPECT_EQ(first.differing_values, 1U);
    EXPECT_EQ(first.actual, std::nextafter(first.expected, 1e9F));
    // Alone, the same trial of the sound executor is equal: the place can be reproduced.
    const ExactReport again = check(tiny, kind_of<BatchMateFault>(),
                                    {.seed = 1, .first_trial = failure.trial, .trials = 1});
    ASSERT_EQ(again.failures.size(), 1U);
    EXPECT_EQ(describe(*again.failures[0].findings.first()), describe(first));
  }
}

TEST(EvalExact, AMissingCopyIsFound) {
  const ExactReport report =
      check(load("tiny-llama"), kind_of<CopyFault>(), {.seed = 2, .trials = 20});
  EXPECT_FALSE(report.failures.empty());
}

TEST(EvalExact, AWrongSlotIsFound) {
  const ExactReport report =
      check(load("tiny-llama"), kind_of<SlotFault>(), {.seed = 3, .trials = 20});
  EXPECT_FALSE(report.failures.empty());
}

TEST(EvalExact, ComparesBitsAndNotValues) {
  const ExactReport report =
      check(load("tiny-llama"), kind_of<ZeroFault>(), {.seed = 1, .trials = 12});
  ASSERT_FALSE(report.failures.empty());
  const Mismatch& first = *report.failures[0].findings.first();
  EXPECT_EQ(first.expected, first.actual);
  EXPECT_NE(describe(first).find("-0 (80000000) instead of 0 (00000000)"), std::string::npos)
      << describe(first);
}

TEST(EvalExact, EveryKvFormatOfTheCommandLineIsTried) {
  const OptionInfo* option = find_option("--kv-format");
  ASSERT_NE(option, nullptr);
  std::string names = "auto";
  for (const kernels::KvFormatInfo& format : kernels::kv_formats())
    names += "|" + std::string(format.name);
  EXPECT_EQ(names, option->choices);
}

// What a user sees when it fails: exit code 1, the place, and how to see it again.
TEST(EvalExact, TheCommandFailsWithThePlaceAndHowToRepeatIt) {
  std::FILE* out = std::tmpfile();
  std::FILE* error = std::tmpfile();
  const Environment environment = [](const std::string&) { return std::string(); };
  Console console(fileno(out), fileno(error), environment);
  const auto line = parse_command_line(
      {"eval", "exact", "--model", path_of("tiny-llama"), "--trials", "6", "--seed", "1"});
  ASSERT_TRUE(line.ok());
  const auto settings = Settings::resolve(*line, environment);
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(eval_exact(*settings, console, kind_of<BatchMateFault>()), Exit::kFailed);
  std::rewind(out);
  std::string text(1U << 16U, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), out));
  for (const char* part : {"rows differ; first turn ", ", position ", "token 7 is ", " instead of ",
                           "--seed 1 --trial-tokens 640 --first-trial ", " of 6 bitwise equal\n"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in:\n" << text;
  EXPECT_EQ(text.find("6 of 6 bitwise equal"), std::string::npos);
  std::fclose(out);
  std::fclose(error);
}

TEST(MakeTrial, IsTheSameForTheSameNumberAndKeepsItsLimits) {
  std::set<std::uint64_t> schedules;
  for (std::uint64_t number = 1; number <= 300; ++number) {
    const TrialLimits limits{.vocabulary_size = 50,
                             .max_length = number % 2 == 0 ? 40U : 2000U,
                             .token_budget = number % 3 == 0 ? 2U : 640U};
    const TrialPlan plan = make_trial(9, number, limits);
    schedules.insert(plan.schedule_seed);
    const TrialPlan same = make_trial(9, number, limits);
    ASSERT_EQ(plan.turns.size(), same.turns.size());
    std::uint32_t computed = 0;
    for (std::size_t i = 0; i < plan.turns.size(); ++i) {
      const TrialTurn& turn = plan.turns[i];
      EXPECT_EQ(turn.fresh, same.turns[i].fresh);
      EXPECT_GE(turn.prompt_length(), 1U);
      EXPECT_LE(turn.length(), limits.max_length);
      if (turn.parent) {
        ASSERT_LT(*turn.parent, i);
        EXPECT_LE(turn.kept, plan.turns[*turn.parent].length());
      } else {
        EXPECT_EQ(turn.kept, 0U);
      }
      if (!turn.fresh.empty()) computed += turn.length();
    }
    EXPECT_LE(computed, std::max(limits.token_budget, 2U));
  }
  EXPECT_EQ(schedules.size(), 300U);
}

TEST(BorderLength, FavoursTheBordersOfBlocksAndSplits) {
  Rng rng(1);
  int at_block = 0, at_split = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::uint32_t length = border_length(rng, 400);
    ASSERT_TRUE(length >= 1 && length <= 400);
    at_block += (length + 1) % 16 < 3;
    at_split += length >= 254 && length <= 258;
  }
  EXPECT_GT(at_block, 1500);
  EXPECT_GT(at_split, 800);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(border_length(rng, 1), 1U);
}

}  // namespace
}  // namespace refrain::cli
