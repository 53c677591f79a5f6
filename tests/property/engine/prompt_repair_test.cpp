// PromptRepair alone, on random runs: which rows it wants computed in which order, when it accepts
// and when it refuses (A4, A13). Who runs the rows is played: keys and values of the arena change,
// attention is made up.
#include "engine/prompt_repair.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <set>

#include "base/rng.h"

namespace refrain::engine {
namespace {

using model::ContextChange;
using model::MovedRun;
using model::RepairRung;

constexpr std::uint32_t kBlockSize = 16, kBlocks = 40;
constexpr std::uint16_t kHalfOne = 0x3C00, kHalfNan = 0x7E00;  // float16

model::ModelShape small_shape() {
  model::ModelShape shape;
  shape.layer_count = 3;
  shape.head_count = shape.kv_head_count = 1;
  shape.key_dim = shape.value_dim = 16;
  return shape;
}

// An arena whose rows are made up, all blocks in the table of one sequence.
struct Rows {
  Rows() {
    for (std::uint32_t block = 0; block < kBlocks; ++block) table.push_back(BlockId{block});
    fill([] { return kHalfOne; });
  }
  template <typename Make>
  void fill(Make make) {
    const std::size_t halves = arena->bytes() / shape.layer_count / sizeof(std::uint16_t);
    for (std::uint32_t layer = 0; layer < shape.layer_count; ++layer) {
      std::byte* to = arena->layer(layer);
      for (std::size_t i = 0; i < halves; ++i) {
        const std::uint16_t half = make();
        std::memcpy(to + i * sizeof(half), &half, sizeof(half));
      }
    }
  }
  // Values between 1 and 2.
  void change(Rng& rng) {
    fill([&] { return static_cast<std::uint16_t>(kHalfOne + rng.below(1024)); });
  }

  model::ModelShape shape = small_shape();
  std::unique_ptr<model::KvArena> arena =
      model::KvArena::create(shape, model::KvFormat::kF16, kBlockSize, kBlocks).value();
  model::ProbeReader probes{shape, *arena};
  kv::BlockTable table;
};

model::ReuseGate gate_of(double slope) {
  model::ReuseGate::Slopes slopes;
  for (auto& of_change : slopes) of_change.fill(slope);
  return model::ReuseGate(slopes);
}

struct Prompt {
  std::vector<MovedRun> runs;
  TokenList tokens;
  Position question = 0;

  Position end() const { return static_cast<Position>(tokens.size()); }
  std::set<Position> fresh() const {
    std::set<Position> rows;
    for (Position row = runs.front().begin; row < end(); ++row) rows.insert(row);
    for (const MovedRun& run : runs)
      for (Position row = run.begin; row < run.end; ++row) rows.erase(row);
    return rows;
  }
  std::uint32_t run_rows() const {
    std::uint32_t rows = 0;
    for (const MovedRun& run : runs) rows += static_cast<std::uint32_t>(run.end - run.begin);
    return rows;
  }
};

Prompt random_prompt(Rng& rng) {
  Prompt prompt;
  auto at = static_cast<Position>(rng.below(60));
  const std::uint64_t count = 1 + rng.below(4);
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto length = static_cast<Position>(1 + rng.below(rng.below(3) == 0 ? 5 : 120));
    prompt.runs.push_back({at, at + length});
    at += length + static_cast<Position>(rng.below(2) == 0 ? 0 : rng.below(20));
  }
  const auto end = std::max(at, prompt.runs.back().end + 1) + static_cast<Position>(rng.below(30));
  for (Position row = 0; row < end; ++row)
    prompt.tokens.push_back(TokenId{static_cast<std::int32_t>(rng.below(50))});
  prompt.question = question_begin(
      static_cast<Position>(rng.below(static_cast<std::uint64_t>(end))), prompt.runs, end);
  return prompt;
}

// What was asked for, and how it ended.
struct Course {
  std::vector<std::vector<Position>> passes;
  std::set<Position> computed;
};

struct Player {
  Rows& rows;
  Rng& rng;
  float weight = 1.0F;  // attention is up to that much

  model::AttentionMass mass(const Prompt& prompt) {
    model::AttentionMass made{.length = static_cast<std::uint32_t>(prompt.end()), .weights = {}};
    for (std::size_t i = 0; i < std::size_t{3} * made.length; ++i)
      made.weights.push_back(weight * static_cast<float>(rng.below(1000)) / 1000.0F);
    return made;
  }
  // Runs all that it wants, in random pieces. Every pass must ascend and end with the last row.
  Course play(PromptRepair& repair, const Prompt& prompt) {
    Course course;
    repair.begin(rows.table, {});
    while (repair.state() == PromptRepair::State::kRunning) {
      const std::vector<Position> pass(repair.pending().begin(), repair.pending().end());
      RC_ASSERT(!pass.empty() && pass.back() == prompt.end() - 1);
      RC_ASSERT(std::adjacent_find(pass.begin(), pass.end(), std::greater_equal<>()) == pass.end());
      RC_ASSERT(pass.front() >= repair.first_row());
      course.passes.push_back(pass);
      rows.change(rng);
      for (std::size_t left = pass.size(); left > 0;) {
        RC_ASSERT(repair.pending().size() == left);
        const std::size_t count = 1 + rng.below(left);
        const std::span<const Position> piece = repair.pending().first(count);
        const bool asked =
            std::ranges::any_of(piece, [&](Position row) { return repair.wants_mass(row); });
        course.computed.insert(piece.begin(), piece.end());
        const model::AttentionMass seen = mass(prompt);
        repair.ran(count, asked ? &seen : nullptr, rows.table);
        left -= count;
      }
    }
    return course;
  }
};

ContextChange random_change(Rng& rng) {
  return rng.below(2) == 0 ? ContextChange::kEdited : ContextChange::kRecombined;
}

void check_accepted(const PromptRepair& repair, const Prompt& prompt, const Course& course) {
  const std::set<Position> fresh = prompt.fresh();
  RC_ASSERT(std::ranges::includes(course.computed, fresh));
  RC_ASSERT(repair.fresh_rows() == fresh.size());
  RC_ASSERT(repair.repaired_rows() == course.computed.size() - fresh.size());
  RC_ASSERT(repair.moved_rows() + repair.repaired_rows() == prompt.run_rows());
  RC_ASSERT(course.passes.size() <= 2U);
  if (course.passes.size() < 2) return;
  // Nothing behind the first row of the second pass is left as the look found it.
  const std::vector<Position>&look = course.passes[0], &second = course.passes[1];
  for (const Position row : look)
    RC_ASSERT(row < second.front() || std::ranges::binary_search(second, row));
  if (fresh.contains(second.front())) return;
  RC_ASSERT(second.front() >= prompt.runs.front().begin);
}

RC_GTEST_PROP(PromptRepairProperty, AFixedRungIsNeverRefusedAndHasEveryFreshRow,
              (std::uint64_t seed)) {
  Rng rng(seed);
  Rows rows;
  const Prompt prompt = random_prompt(rng);
  for (const RepairRung rung : model::kRepairRungs) {
    PromptRepair repair(prompt.runs, prompt.tokens, prompt.question, random_change(rng),
                        {.fixed = rung}, nullptr);
    const Course course = Player{rows, rng}.play(repair, prompt);
    RC_ASSERT(repair.state() == PromptRepair::State::kAccepted);
    RC_ASSERT(repair.rung() == rung);
    RC_ASSERT(!repair.estimate().has_value());
    check_accepted(repair, prompt, course);
    if (rung == RepairRung::kMoved) RC_ASSERT(repair.repaired_rows() == 0U);
    if (rung == RepairRung::kAll) RC_ASSERT(repair.moved_rows() == 0U);
  }
}

RC_GTEST_PROP(PromptRepairProperty, AGateAcceptsWhatItAllowsAndRefusesTheRest,
              (std::uint64_t seed)) {
  Rng rng(seed);
  Rows rows;
  rows.change(rng);
  const Prompt prompt = random_prompt(rng);
  // Residuals here are about 0.3 and exposures below: both outcomes, and each rung, occur.
  const model::ReuseGate gate = gate_of(static_cast<double>(rng.below(1000)) / 1000.0);
  const double inherited = rng.below(3) == 0 ? 0.02 : 0.0;
  const RepairJudge judge{.gate = &gate, .max_divergence = 0.1, .inherited = inherited};
  PromptRepair repair(prompt.runs, prompt.tokens, prompt.question, random_change(rng), judge,
                      &rows.probes);
  const Course course = Player{rows, rng}.play(repair, prompt);
  RC_TAG(repair.state() == PromptRepair::State::kRefused
             ? std::string("refused")
             : std::string(model::name_of(repair.rung())));
  RC_ASSERT(repair.estimate().has_value() && *repair.estimate() >= inherited);
  RC_ASSERT((*repair.estimate() <= judge.max_divergence) ==
            (repair.state() == PromptRepair::State::kAccepted));
  for (const Position probe : model::choose_probes(prompt.runs, prompt.tokens))
    RC_ASSERT(course.computed.contains(probe));
  if (repair.state() == PromptRepair::State::kAccepted) check_accepted(repair, prompt, course);
  if (repair.state() == PromptRepair::State::kRefused) RC_ASSERT(course.passes.size() == 1U);
}

Prompt two_runs() {
  Prompt prompt{.runs = {{20, 150}, {160, 260}}, .tokens = {}};
  for (int i = 0; i < 300; ++i) prompt.tokens.push_back(TokenId{i % 7});
  prompt.question = 260;
  return prompt;
}

class NotANumber : public testing::TestWithParam<ContextChange> {};
INSTANTIATE_TEST_SUITE_P(Changes, NotANumber, testing::ValuesIn(model::kContextChanges));

TEST_P(NotANumber, InTheAttentionIsRefused) {
  Rng rng(1);
  Rows rows;
  const Prompt prompt = two_runs();
  for (const float weight :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const model::ReuseGate gate = gate_of(0.0);  // allows every number
    PromptRepair repair(prompt.runs, prompt.tokens, prompt.question, GetParam(),
                        {.gate = &gate, .max_divergence = 10}, &rows.probes);
    Player{rows, rng, weight}.play(repair, prompt);
    EXPECT_EQ(repair.state(), PromptRepair::State::kRefused);
  }
}

TEST_P(NotANumber, InTheValuesIsRefusedBeforeAndAfterTheLook) {
  const Prompt prompt = two_runs();
  const model::ReuseGate gate = gate_of(0.0);
  for (const bool before : {true, false}) {
    Rng rng(2);
    Rows rows;
    PromptRepair repair(prompt.runs, prompt.tokens, prompt.question, GetParam(),
                        {.gate = &gate, .max_divergence = 10}, &rows.probes);
    rows.fill([&] { return before ? kHalfNan : kHalfOne; });
    repair.begin(rows.table, {});
    rows.fill([&] { return before ? kHalfOne : kHalfNan; });
    const model::AttentionMass seen = Player{rows, rng}.mass(prompt);
    repair.ran(repair.pending().size(), &seen, rows.table);
    EXPECT_EQ(repair.state(), PromptRepair::State::kRefused) << before;
  }
}

TEST_P(NotANumber, IsRefusedWhereNothingWasMeasuredToo) {
  Rng rng(3);
  Rows rows;
  const Prompt prompt = two_runs();
  const model::ReuseGate gate{model::ReuseGate::Slopes{}};
  PromptRepair repair(prompt.runs, prompt.tokens, prompt.question, GetParam(),
                      {.gate = &gate, .max_divergence = 10}, &rows.probes);
  Player{rows, rng}.play(repair, prompt);
  EXPECT_EQ(repair.state(), PromptRepair::State::kRefused);
  EXPECT_FALSE(repair.estimate());
}

TEST(PromptRepair, QuestionsAreTheFreshEndOfTheLastTurn) {
  const std::vector<MovedRun> runs = {{20, 100}};
  EXPECT_EQ(question_begin(0, runs, 130), 100) << "what was moved is no question";
  EXPECT_EQ(question_begin(110, runs, 130), 110);
  EXPECT_EQ(question_begin(0, runs, 300), 236) << "at most 64 rows";
  EXPECT_EQ(question_begin(0, runs, 107), 43) << "fewer than 8 fresh rows: it was moved as well";
  EXPECT_EQ(question_begin(200, runs, 130), 129) << "at least the last row";
}

TEST(PromptRepair, TextIsEditedWhereItKeepsItsOrderAndNearlyAllInFrontOfIt) {
  const auto run = [](Position begin, Position source, std::uint32_t length, float known) {
    kv::SegmentRun made;
    made.begin = begin;
    made.source_begin = source;
    made.length = length;
    made.known_context = known;
    return made;
  };
  using Runs = std::vector<kv::SegmentRun>;
  EXPECT_EQ(change_of(Runs{run(110, 100, 400, 0.95F)}), ContextChange::kEdited);
  EXPECT_EQ(change_of(Runs{run(110, 100, 400, 0.1F)}), ContextChange::kRecombined);
  EXPECT_EQ(change_of(Runs{run(110, 100, 400, 0.95F), run(520, 500, 400, 0.95F)}),
            ContextChange::kEdited);
  EXPECT_EQ(change_of(Runs{run(10, 510, 400, 0.95F), run(520, 0, 400, 0.95F)}),
            ContextChange::kRecombined)
      << "exchanged";
}

}  // namespace
}  // namespace refrain::engine
