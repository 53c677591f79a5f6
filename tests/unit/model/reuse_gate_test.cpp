// Exposure and the gate's estimate; probes and how far off they say that runs are.
#include "model/reuse_gate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "model/probe.h"

namespace refrain::model {
namespace {

constexpr MovedRun kRuns[] = {{2, 6}, {7, 9}};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Look even_look() {
  return {.attention = std::vector<float>(10, 1.0F), .residuals = {0.5F, 0.25F}};
}

TEST(Exposure, IsTheAttentionToRowsLeftAsTheyWereWeightedByTheirRunsResidual) {
  EXPECT_DOUBLE_EQ(exposure(kRuns, even_look(), {}), (4 * 0.5 + 2 * 0.25) / 10);
  EXPECT_DOUBLE_EQ(exposure(kRuns, even_look(), std::vector<Position>{1, 3, 4, 8}),
                   (2 * 0.5 + 1 * 0.25) / 10);
  EXPECT_EQ(exposure(kRuns, even_look(), std::vector<Position>{2, 3, 4, 5, 7, 8}), 0.0);
  Look look = even_look();
  look.attention[3] = 0.0F;
  look.attention[0] = 11.0F;  // nothing that was moved
  EXPECT_DOUBLE_EQ(exposure(kRuns, look, {}), (3 * 0.5 + 2 * 0.25) / 19);
}

TEST(Exposure, IsNoNumberWhereTheLookHasOne) {
  for (const std::size_t key : {0U, 3U, 9U}) {
    Look look = even_look();
    look.attention[key] = kNan;
    EXPECT_TRUE(std::isnan(exposure(kRuns, look, {}))) << key;
  }
  Look look = even_look();
  look.residuals[1] = kNan;
  EXPECT_TRUE(std::isnan(exposure(kRuns, look, {})));
}

TEST(ReuseGate, MultipliesTheSlopeOfChangeAndRungAndKnowsOnlyWhatWasMeasured) {
  ReuseGate::Slopes slopes{};
  const auto at = [&](ContextChange change, RepairRung rung) -> std::optional<double>& {
    return ReuseGate::slope_of(slopes, change, rung);
  };
  at(ContextChange::kEdited, RepairRung::kHeads) = 0.5;
  at(ContextChange::kRecombined, RepairRung::kHeads) = 3.0;
  const ReuseGate gate(slopes);
  EXPECT_EQ(gate.estimate(ContextChange::kEdited, RepairRung::kHeads, 0.25), 0.125);
  EXPECT_EQ(gate.estimate(ContextChange::kRecombined, RepairRung::kHeads, 0.25), 0.75);
  EXPECT_FALSE(gate.estimate(ContextChange::kEdited, RepairRung::kMoved, 0.25));
  EXPECT_FALSE(gate.estimate(ContextChange::kRecombined, RepairRung::kMore, 0.25));
  EXPECT_EQ(gate.estimate(ContextChange::kRecombined, RepairRung::kAll, 0.25), 0.0);
}

TEST(ReuseGate, ATokenIsAsLikelyAnotherOneAsItsLeadIsSmallBesideWhatIsExpected) {
  const ReuseGate gate({}, 4.0);  // with 0.01 nats: a deviation of 0.2 logits
  EXPECT_DOUBLE_EQ(gate.changed_token(0.0, 0.01), 0.5);
  EXPECT_NEAR(gate.changed_token(0.2, 0.01), 0.158655, 1e-6);  // one deviation
  EXPECT_NEAR(gate.changed_token(0.4, 0.01), 0.022750, 1e-6);
  EXPECT_NEAR(gate.changed_token(0.4, 0.04), 0.158655, 1e-6);
  EXPECT_EQ(gate.changed_token(0.0, 0.0), 0.0) << "nothing is expected to be off";
  EXPECT_EQ(ReuseGate({}).changed_token(0.0, 0.01), 0.0) << "was not measured";
}

TEST(ReuseGate, ANearTieIsOnlyWatchedWhereLittleIsExpectedAndALimitIsGiven) {
  const ReuseGate gate({}, 4.0);
  EXPECT_TRUE(gate.is_near_tie(0.1, 0.01, 0.2)) << "0.31 of a chance";
  EXPECT_FALSE(gate.is_near_tie(0.2, 0.01, 0.2)) << "0.16";
  EXPECT_FALSE(gate.is_near_tie(0.1, 0.011, 0.2)) << "most answers would have such a token";
  EXPECT_TRUE(gate.is_near_tie(0.0, 0.01, 0.49));
  for (const double limit : {0.5, 1.0}) {
    EXPECT_FALSE(ReuseGate::watches(0.001, limit)) << "nothing is likelier than that";
    EXPECT_FALSE(gate.is_near_tie(0.0, 0.001, limit));
  }
}

TEST(Probes, StandOneInEachStretchOfARunChosenByItsTokensAlone) {
  const MovedRun runs[] = {{10, 110}, {120, 123}};
  TokenList tokens;
  for (int i = 0; i < 130; ++i) tokens.push_back(TokenId{i * 37 % 101});
  const std::vector<Position> probes = choose_probes(runs, tokens);
  ASSERT_EQ(probes.size(), kProbesPerRun + 3U);
  for (std::size_t i = 0; i < kProbesPerRun; ++i) {
    EXPECT_GE(probes[i], 10 + static_cast<Position>(25 * i));
    EXPECT_LT(probes[i], 10 + static_cast<Position>(25 * (i + 1)));
  }
  EXPECT_EQ((std::vector<Position>{probes.end() - 3, probes.end()}),
            (std::vector<Position>{120, 121, 122}));
  // The same text 40 tokens further on has its probes 40 further on.
  TokenList later(40, TokenId{1});
  later.insert(later.end(), tokens.begin(), tokens.end());
  const MovedRun there[] = {{50, 150}, {160, 163}};
  const std::vector<Position> moved = choose_probes(there, later);
  ASSERT_EQ(moved.size(), probes.size());
  for (std::size_t i = 0; i < probes.size(); ++i) EXPECT_EQ(moved[i], probes[i] + 40);
}

class Residuals : public testing::Test {
 protected:
  static ModelShape small_shape() {
    ModelShape shape;
    shape.layer_count = 2;
    shape.head_count = shape.kv_head_count = 1;
    shape.key_dim = shape.value_dim = 4;
    return shape;
  }
  // Values of three rows, [row][layer][4], all of them `value`.
  static std::vector<float> reading(float value) { return std::vector<float>(24, value); }
  std::vector<float> of(const std::vector<float>& moved, const std::vector<float>& fresh) const {
    return reader_.residuals(runs_, rows_, moved, fresh);
  }

  const ModelShape shape_ = small_shape();
  const std::unique_ptr<KvArena> arena_ = KvArena::create(shape_, KvFormat::kF16, 16, 2).value();
  const ProbeReader reader_{shape_, *arena_};
  const std::vector<MovedRun> runs_ = {{0, 8}, {8, 16}, {16, 20}};
  const std::vector<Position> rows_ = {1, 5, 9};  // the third run has none
};

TEST_F(Residuals, AreRelativeDistancesMeanOverProbesAndLayers) {
  EXPECT_EQ(of(reading(2.0F), reading(2.0F)), (std::vector<float>{0.0F, 0.0F, 0.0F}));
  std::vector<float> moved = reading(2.0F);
  for (std::size_t i = 0; i < 4; ++i) moved[i] = 4.0F;  // row 1, layer 0: as far off as it is long
  for (std::size_t i = 16; i < 24; ++i) moved[i] = 3.0F;
  EXPECT_EQ(of(moved, reading(2.0F)), (std::vector<float>{0.25F, 0.5F, 0.0F}));
}

TEST_F(Residuals, AreNoNumbersWhereARowIsNone) {
  std::vector<float> broken = reading(2.0F);
  broken[6] = kNan;
  for (const auto& [moved, fresh] : {std::pair(broken, reading(2.0F)), {reading(2.0F), broken}}) {
    const std::vector<float> residuals = of(moved, fresh);
    EXPECT_TRUE(std::isnan(residuals[0]));
    EXPECT_EQ(residuals[1], 0.0F);
  }
}

TEST_F(Residuals, ReadsTheValuesOfARowFromItsSlot) {
  const std::uint16_t two = 0x4000;  // float16
  const std::size_t halves = arena_->bytes() / 2 / sizeof(two);
  for (std::size_t i = 0; i < halves; ++i)
    std::memcpy(arena_->layer(1) + i * sizeof(two), &two, sizeof(two));
  const kv::BlockTable table = {BlockId{1}, BlockId{0}};
  const std::vector<float> values = reader_.read(table, std::vector<Position>{3, 17});
  ASSERT_EQ(values.size(), 16U);
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(values[i], i % 8 < 4 ? 0.0F : 2.0F) << "layer 0 is empty, layer 1 is not: " << i;
}

}  // namespace
}  // namespace refrain::model
