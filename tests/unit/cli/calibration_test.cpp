// Calibrations: slopes from measured cases, the file that keeps them, and what is no such file.
#include "cli/calibration.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/str.h"

namespace refrain::cli {
namespace {

namespace fs = std::filesystem;
using model::ContextChange;
using model::RepairRung;

const std::optional<double>& slope(const Calibration& calibration, ContextChange change,
                                   RepairRung rung) {
  return model::ReuseGate::slope_of(calibration.slopes, change, rung);
}

// A case whose rung 0 has this exposure and these errors.
ReuseResult measured(ReuseKind kind, double exposure, std::vector<double> kl) {
  ReuseResult result;
  result.kind = kind;
  result.run_count = 1;
  result.change = kind == ReuseKind::kEdited ? ContextChange::kEdited : ContextChange::kRecombined;
  RungResult rung{.rung = RepairRung::kMoved, .errors = {}, .exposure = exposure};
  rung.errors.margin.assign(kl.size(), 0.3);
  for (const double each : kl) rung.errors.margin_shift.push_back(std::sqrt(6.0 * each));
  rung.errors.agreeing = kl.size() - 1;
  rung.errors.kl = std::move(kl);
  result.rungs.push_back(std::move(rung));
  return result;
}

std::vector<ReuseResult> nine_cases() {
  std::vector<ReuseResult> results;
  for (int i = 0; i < 3; ++i) {
    const double exposure = 0.1 * (i + 1);
    results.push_back(measured(ReuseKind::kRecombined, exposure, {3.0 * exposure, 1.0 * exposure}));
    results.push_back(measured(ReuseKind::kEdited, exposure, {0.5 * exposure}));
  }
  return results;
}

TEST(Calibrate, FitsTwoOfThreeCasesOfAKindAndChecksTheThird) {
  std::vector<ReuseResult> results = nine_cases();
  results[4].rungs[0].errors.kl = {1.2, 0.6};  // the held-back one with exposure 0.3: KL 0.9
  const Result<Calibration> calibration = calibrate(results);
  ASSERT_TRUE(calibration.ok()) << calibration.error().message;
  EXPECT_NEAR(*slope(*calibration, ContextChange::kRecombined, RepairRung::kMoved), 2.0, 1e-12);
  EXPECT_NEAR(*slope(*calibration, ContextChange::kEdited, RepairRung::kMoved), 0.5, 1e-12);
  EXPECT_FALSE(slope(*calibration, ContextChange::kEdited, RepairRung::kHeads)) << "not measured";
  EXPECT_EQ(calibration->fitted_cases, 4U);
  EXPECT_EQ(calibration->held_back.cases, 2U);
  EXPECT_NEAR(calibration->held_back.kl_mean, (0.9 + 0.15) / 2, 1e-12);
  EXPECT_NEAR(calibration->held_back.estimate_mean, (0.6 + 0.15) / 2, 1e-12);
  EXPECT_NEAR(calibration->held_back.kept, 0.5, 1e-12);
  EXPECT_NEAR(calibration->margin_variance, 6.0, 1e-12);
  EXPECT_NEAR(calibration->held_back.changed, 2.0 / 3, 1e-12) << "two of three rows";
  // Leads of 0.3, with variances of 6 x 0.6 (two rows) and 6 x 0.15 (one).
  const double estimate =
      (std::erfc(0.3 / std::sqrt(7.2)) + std::erfc(0.3 / std::sqrt(1.8)) / 2) / 3;
  EXPECT_NEAR(calibration->held_back.changed_estimate, estimate, 1e-12);
}

TEST(Calibrate, NeedsThreeCasesOfEachKindThatMoveSomething) {
  const auto refused = [](std::vector<ReuseResult> results, const std::string& words) {
    const Result<Calibration> calibration = calibrate(results);
    ASSERT_FALSE(calibration.ok());
    EXPECT_EQ(calibration.error().code, Code::kInvalidArgument);
    EXPECT_NE(calibration.error().message.find(words), std::string::npos)
        << calibration.error().message;
    EXPECT_NE(calibration.error().hint.find("at least 3"), std::string::npos);
  };
  refused({}, "only 0 recombined cases");
  std::vector<ReuseResult> few = nine_cases();
  few.pop_back();
  refused(few, "only 2 edited cases");
  std::vector<ReuseResult> unmoved = nine_cases();
  unmoved[2].run_count = 0;  // a recombined one
  refused(unmoved, "only 2 recombined cases");
}

TEST(Calibrate, WhatIsNoNumberIsNotMeasured) {
  std::vector<ReuseResult> results = nine_cases();
  const auto poison = [&](ContextChange change) {
    for (ReuseResult& result : results) {
      if (result.change != change) continue;
      if (change == ContextChange::kRecombined) {
        for (RungResult& rung : result.rungs) rung.errors.kl = {std::nan("")};
      } else {
        for (RungResult& rung : result.rungs) rung.exposure = std::nan("");
      }
      return;
    }
  };
  poison(ContextChange::kRecombined);
  const Result<Calibration> calibration = calibrate(results);
  ASSERT_TRUE(calibration.ok());
  EXPECT_FALSE(slope(*calibration, ContextChange::kRecombined, RepairRung::kMoved));
  EXPECT_TRUE(slope(*calibration, ContextChange::kEdited, RepairRung::kMoved));
  poison(ContextChange::kEdited);
  const Result<Calibration> nothing = calibrate(results);
  ASSERT_FALSE(nothing.ok()) << "a calibration that no gate could use is not kept";
  EXPECT_NE(nothing.error().message.find("no case gave"), std::string::npos);
}

class CalibrationFile : public ::testing::Test {
 protected:
  CalibrationFile()
      : root_(fs::temp_directory_path() / ("refrain_calibration_" + std::to_string(::getpid()))) {
    fs::create_directories(root_);
  }
  ~CalibrationFile() override { fs::remove_all(root_); }

  std::string at(const std::string& name) const { return (root_ / name).string(); }
  std::string file(const std::string& text) const {
    std::ofstream(at("c.json")) << text;
    return at("c.json");
  }
  std::string saved() const {
    EXPECT_TRUE(save_calibration(at("c.json"), subject_, calibrate(nine_cases()).value()).ok());
    std::ifstream in(at("c.json"));
    return {std::istreambuf_iterator<char>(in), {}};
  }

  fs::path root_;
  const CalibrationSubject subject_{hash_text("a model, f16"), "tiny", "avx2/1"};
};

TEST_F(CalibrationFile, GivesBackWhatWasSaved) {
  std::vector<ReuseResult> results = nine_cases();
  for (ReuseResult& result : results) {
    RungResult more = result.rungs[0];
    more.rung = RepairRung::kMore;
    more.exposure = *more.exposure / 3;
    result.rungs.push_back(more);
  }
  const Calibration made = calibrate(results).value();
  const std::string path = at("folder/of/its/own/c.json");
  ASSERT_TRUE(save_calibration(path, subject_, made).ok());
  const auto read = load_calibration(path, subject_);
  ASSERT_TRUE(read.ok()) << read.error().message;
  ASSERT_TRUE(read->has_value());
  EXPECT_EQ((*read)->slopes, made.slopes);
  EXPECT_EQ((*read)->fitted_cases, made.fitted_cases);
  EXPECT_EQ((*read)->held_back.cases, made.held_back.cases);
  EXPECT_EQ((*read)->held_back.kl_mean, made.held_back.kl_mean);
  EXPECT_EQ((*read)->held_back.estimate_mean, made.held_back.estimate_mean);
  EXPECT_EQ((*read)->held_back.kept, made.held_back.kept);
  EXPECT_EQ((*read)->margin_variance, made.margin_variance);
  EXPECT_EQ((*read)->held_back.changed, made.held_back.changed);
  EXPECT_EQ((*read)->held_back.changed_estimate, made.held_back.changed_estimate);
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(at("folder/of/its/own"))) files += entry.exists();
  EXPECT_EQ(files, 1U) << "nothing is left beside it";
}

TEST_F(CalibrationFile, ThatIsNotThereIsNone) {
  const auto read = load_calibration(at("nothing.json"), subject_);
  ASSERT_TRUE(read.ok());
  EXPECT_FALSE(read->has_value());
}

TEST_F(CalibrationFile, OfAnotherModelFormatOrInstructionSetIsRefused) {
  saved();
  const auto read = load_calibration(at("c.json"), {hash_text("a model, q8"), "tiny", "avx2/1"});
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, Code::kInvalidArgument);
  EXPECT_EQ(read.error().field, "--calibration");
  EXPECT_NE(read.error().message.find("another model, KV format"), std::string::npos);
}

TEST_F(CalibrationFile, ThatIsDamagedIsRefusedByName) {
  const std::string good = saved();
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t where = text.find(from);
    EXPECT_NE(where, std::string::npos) << from;
    return text.replace(where, from.size(), to);
  };
  const std::string damaged[] = {
      "",
      "null",
      "[]",
      "not JSON",
      std::string("\0\xFF\xFE", 3),
      good.substr(0, good.size() / 2),
      good + "x",
      with("refrain-calibration/2", "refrain-calibration/1"),
      with("\"format\": \"", "\"format\": 1, \"was\": \""),
      with("\"nats_per_exposure\"", "\"nats\""),
      with("\"moved\": ", "\"moved\": -"),
      with("\"moved\": ", "\"moved\": 1e999, \"was\": "),
      with("\"moved\": ", "\"moved\": \"much\", \"was\": "),
      with("\"recombined\": ", "\"recombined\": 3, \"was\": "),
      with("\"fitted_cases\": ", "\"fitted_cases\": \"x\", \"was\": "),
      with("\"fitted_cases\": ", "\"fitted_cases\": -1, \"was\": "),
      with("\"kl_mean\": ", "\"kl_mean\": [], \"was\": "),
      with("\"cases\": ", "\"cases\": 2.5, \"was\": "),
      with("\"margin_variance_per_nat\": ", "\"margin_variance_per_nat\": -"),
      with("\"margin_variance_per_nat\": ", "\"margin\": "),
      with("\"changed_tokens\": ", "\"changed_tokens\": \"x\", \"was\": "),
      with("\"held_back\": ", "\"held_back\": 7, \"was\": "),
      with("\"held_back\": ", "\"was\": "),
  };
  for (const std::string& text : damaged) {
    const auto read = load_calibration(file(text), subject_);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_EQ(read.error().code, Code::kDataLoss) << text;
    EXPECT_NE(read.error().message.find(at("c.json")), std::string::npos) << text;
    EXPECT_FALSE(read.error().hint.empty());
  }
  const auto folder = load_calibration(root_.string(), subject_);
  EXPECT_FALSE(folder.ok());
  const auto large = load_calibration(file(std::string(100'000, ' ')), subject_);
  EXPECT_FALSE(large.ok());
}

TEST_F(CalibrationFile, ThatCannotBeWrittenIsAnErrorAndLeavesTheOldOne) {
  const std::string before = saved();
  const Calibration made = calibrate(nine_cases()).value();
  const auto below_a_file = save_calibration(at("c.json/d.json"), subject_, made);
  ASSERT_FALSE(below_a_file.ok());
  EXPECT_EQ(below_a_file.error().code, Code::kUnavailable);
  EXPECT_EQ(saved(), before);
  fs::create_directories(root_ / "is_a_folder.json" / "full");
  EXPECT_FALSE(save_calibration(at("is_a_folder.json"), subject_, made).ok());
  for (const auto& entry : fs::directory_iterator(root_))
    EXPECT_EQ(entry.path().string().find(".part"), std::string::npos) << entry.path();
}

TEST(CalibrationPath, IsTheOptionElseTheDataFolder) {
  const Hash128 key = hash_text("key");
  const auto path = [&](const std::string& option, std::map<std::string, std::string> variables) {
    return calibration_path(option, [&](const std::string& name) { return variables[name]; }, key);
  };
  const std::string name = "/refrain/calibration/" + to_hex(key) + ".json";
  EXPECT_EQ(*path("mine.json", {{"XDG_DATA_HOME", "/x"}}), "mine.json");
  EXPECT_EQ(*path("", {{"XDG_DATA_HOME", "/x"}, {"HOME", "/home/me"}}), "/x" + name);
  EXPECT_EQ(*path("", {{"HOME", "/home/me"}}), "/home/me/.local/share" + name);
  const Result<std::string> nowhere = path("", {});
  ASSERT_FALSE(nowhere.ok());
  EXPECT_EQ(nowhere.error().code, Code::kNotFound);
  EXPECT_EQ(*path("mine.json", {}), "mine.json");
}

}  // namespace
}  // namespace refrain::cli
