// Whole models: every generated one loads, every malformed one is refused with its message (O-32),
// and the fingerprint tells files apart.
#include "model/model.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/str.h"
#include "unit/model/gguf_builder.h"

namespace refrain::model {
namespace {

const std::string kGenerated = REFRAIN_TEST_GENERATED;

Result<std::unique_ptr<Model>> load(const std::string& name) {
  return Model::load({.path = kGenerated + "/" + name + ".gguf"});
}

// A copy of tiny-Q4_0.gguf with one byte changed, loaded.
Result<std::unique_ptr<Model>> load_changed(std::uint64_t (*place)(std::uint64_t size)) {
  auto bytes = read_bytes(kGenerated + "/tiny-Q4_0.gguf");
  bytes[place(bytes.size())] ^= std::byte{1};
  const std::string path = ::testing::TempDir() + "/refrain-changed.gguf";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<long>(bytes.size()));
  auto model = Model::load({.path = path});
  std::remove(path.c_str());
  return model;
}

TEST(Model, LoadsEveryGeneratedModelWithProgressFromNothingToDone) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kGenerated)) {
    if (entry.path().extension() != ".gguf") continue;
    std::vector<double> shares;
    const auto model = Model::load({.path = entry.path().string(),
                                    .on_progress = [&](double share) { shares.push_back(share); }});
    ASSERT_TRUE(model.ok()) << entry.path() << ": " << model.error().message;
    EXPECT_EQ((*model)->path(), entry.path().string());
    EXPECT_EQ(shares.front(), 0.0);
    EXPECT_EQ(shares.back(), 1.0);
    EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
    ++count;
  }
  EXPECT_GE(count, 25);
}

TEST(Model, NamesTheTypeOfItsWeights) {
  for (const std::string type :
       {"F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"}) {
    const auto model = load("tiny-" + type);
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_EQ((*model)->quantization(), type);
  }
}

TEST(Model, KeepsTheChatTemplateOrSaysThereIsNone) {
  EXPECT_NE((*load("tiny"))->chat_template().find("<|im_start|>"), std::string::npos);
  EXPECT_EQ((*load("tiny-no-template"))->chat_template(), "");
}

TEST(Model, TheContextCanBeShortenedButNotLengthened) {
  const std::string path = kGenerated + "/tiny.gguf";
  EXPECT_EQ((*Model::load({.path = path}))->max_context(), 2048U);
  EXPECT_EQ((*Model::load({.path = path, .max_context = 100}))->max_context(), 100U);
  const auto longer = Model::load({.path = path, .max_context = 4096});
  ASSERT_FALSE(longer.ok());
  EXPECT_EQ(longer.error().field, "max_context");
}

TEST(Model, TheFingerprintChangesWithHeaderSizeAndWeights) {
  const Hash128 original = (*load("tiny-Q4_0"))->fingerprint();
  EXPECT_EQ(original, (*load("tiny-Q4_0"))->fingerprint());
  EXPECT_NE(original, (*load("tiny-Q4_1"))->fingerprint());
  const auto last = load_changed([](std::uint64_t size) { return size - 300; });
  ASSERT_TRUE(last.ok()) << last.error().message;
  EXPECT_NE(original, (*last)->fingerprint());
  // These differ in one number of the header only.
  EXPECT_NE((*load("tiny"))->fingerprint(), (*load("tiny-short"))->fingerprint());
}

// O-32: one clear error for each malformed file, never a crash, never loaded.
TEST(Model, RefusesEveryMalformedFileWithTheMessageThatItsManifestSays) {
  std::ifstream manifest(kGenerated + "/bad/manifest.tsv");
  ASSERT_TRUE(manifest) << "run the target generated_models";
  int count = 0;
  for (std::string line; std::getline(manifest, line); ++count) {
    const auto parts = split(line, '\t');
    ASSERT_EQ(parts.size(), 3U) << line;
    const auto model = Model::load({.path = kGenerated + "/bad/" + std::string(parts[0])});
    ASSERT_FALSE(model.ok()) << line;
    const Error& error = model.error();
    const Code code = parts[1] == "data_loss" ? Code::kDataLoss
                      : parts[1] == "invalid" ? Code::kInvalidArgument
                                              : Code::kUnsupported;
    EXPECT_EQ(error.code, code) << line << "\n" << error.message;
    EXPECT_NE(error.message.find(parts[2]), std::string::npos) << line << "\n" << error.message;
    EXPECT_NE(error.message.find(std::string(parts[0])), std::string::npos) << error.message;
    EXPECT_EQ(error.message.find('\n'), std::string::npos) << error.message;
    EXPECT_FALSE(error.field.empty()) << line;
  }
  EXPECT_GE(count, 100);
}

}  // namespace
}  // namespace refrain::model
