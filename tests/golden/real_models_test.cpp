// The two real models that the project ships with load, with the numbers their publishers state;
// headers of 49,152 and 262,144 tokens are checked in a moment.
#include <gtest/gtest.h>

#include <chrono>

#include "model/gguf_file.h"
#include "model/model.h"

namespace refrain::model {
namespace {

const std::string kModels = REFRAIN_TEST_MODELS;
const std::string kSmol = kModels + "/SmolLM2-135M-Instruct.Q4_1.gguf";
const std::string kGemma = kModels + "/gemma-3-270m-q4_k_m.gguf";

TEST(RealModels, SmolLM2Loads) {
  const auto model = Model::load({.path = kSmol});
  ASSERT_TRUE(model.ok()) << model.error().message;
  const ModelShape& shape = (*model)->shape();
  EXPECT_EQ(shape.architecture, Architecture::kLlama);
  EXPECT_EQ(shape.layer_count, 30U);
  EXPECT_EQ(shape.embedding_dim, 576U);
  EXPECT_EQ(shape.head_count, 9U);
  EXPECT_EQ(shape.kv_head_count, 3U);
  EXPECT_EQ(shape.key_dim, 64U);
  EXPECT_EQ(shape.vocabulary_size, 49152U);
  EXPECT_EQ(shape.context_length, 8192U);
  EXPECT_EQ(shape.rope.base, 100000.0F);
  EXPECT_EQ(shape.rope.layout, RopeLayout::kInterleaved);
  EXPECT_TRUE(shape.tied_output);
  EXPECT_EQ(shape.parameter_count, 134'515'008U);
  EXPECT_EQ((*model)->quantization(), "Q4_1");
  const text::Vocabulary& vocabulary = (*model)->vocabulary();
  EXPECT_EQ(vocabulary.kind, text::VocabularyKind::kBytePair);
  EXPECT_EQ(vocabulary.merges.size(), 48900U);
  EXPECT_EQ(vocabulary.eos, TokenId{2});
  EXPECT_FALSE(vocabulary.add_bos);
  EXPECT_NE((*model)->chat_template().find("<|im_start|>"), std::string::npos);
}

TEST(RealModels, Gemma3Loads) {
  const auto model = Model::load({.path = kGemma});
  ASSERT_TRUE(model.ok()) << model.error().message;
  const ModelShape& shape = (*model)->shape();
  EXPECT_EQ(shape.architecture, Architecture::kGemma3);
  EXPECT_EQ(shape.layer_count, 18U);
  EXPECT_EQ(shape.embedding_dim, 640U);
  EXPECT_EQ(shape.head_count, 4U);
  EXPECT_EQ(shape.kv_head_count, 1U);
  EXPECT_EQ(shape.key_dim, 256U);
  EXPECT_EQ(shape.vocabulary_size, 262144U);
  EXPECT_EQ(shape.sliding_window, 512U);
  EXPECT_EQ(shape.global_layer_period, 6U);
  EXPECT_EQ(shape.rope.base, 1e6F);
  EXPECT_EQ(shape.rope.base_local, 1e4F);
  EXPECT_FLOAT_EQ(shape.attention_scale, 1.0F / 16.0F);
  EXPECT_TRUE(shape.qk_norm && shape.post_norms && shape.gelu && shape.tied_output);
  EXPECT_EQ((*model)->quantization(), "Q5_0");
  const text::Vocabulary& vocabulary = (*model)->vocabulary();
  EXPECT_EQ(vocabulary.kind, text::VocabularyKind::kSentencePiece);
  EXPECT_EQ(vocabulary.bos, TokenId{2});
  EXPECT_TRUE(vocabulary.add_bos);
  EXPECT_FALSE(vocabulary.add_space_prefix);
  EXPECT_EQ((*model)->chat_template(), "");
}

TEST(RealModels, TheLargeHeaderIsCheckedInAMoment) {
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(GgufFile::open(kGemma).ok());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  RecordProperty("open_ms", static_cast<int>(took.count() * 1000));
  EXPECT_LT(took.count(), 2.0);  // some 50 ms; room for sanitizers and busy machines
}

}  // namespace
}  // namespace refrain::model
