// Shapes read from metadata: what each architecture means, which numbers are refused, and that the
// tensors must fit.
#include "model/shape_reader.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/str.h"
#include "unit/model/gguf_builder.h"

namespace refrain::model {
namespace {

const std::string kGenerated = REFRAIN_TEST_GENERATED;

Result<ModelShape> shape_of(const GgufBuilder& builder) {
  ASSIGN_OR_RETURN(const auto file, GgufFile::from_bytes(builder.build(), "test"));
  return read_shape(*file);
}

ModelShape generated(const std::string& name) {
  auto file = GgufFile::open(kGenerated + "/" + name + ".gguf");
  if (!file.ok()) {
    ADD_FAILURE() << file.error().message;
    return {};
  }
  auto shape = read_shape(**file);
  if (!shape.ok()) {
    ADD_FAILURE() << shape.error().message;
    return {};
  }
  return *shape;
}

// Expects a refusal whose message holds `text`.
void expect_refused(const GgufBuilder& builder, Code code, const std::string& text) {
  const auto shape = shape_of(builder);
  ASSERT_FALSE(shape.ok()) << text;
  EXPECT_EQ(shape.error().code, code) << shape.error().message;
  EXPECT_NE(shape.error().message.find(text), std::string::npos) << shape.error().message;
}

TEST(ShapeReader, ReadsTheTinyLlama) {
  const ModelShape shape = generated("tiny");
  EXPECT_EQ(shape.architecture, Architecture::kLlama);
  EXPECT_EQ(shape.layer_count, 3U);
  EXPECT_EQ(shape.embedding_dim, 64U);
  EXPECT_EQ(shape.head_count, 4U);
  EXPECT_EQ(shape.kv_head_count, 2U);
  EXPECT_EQ(shape.key_dim, 16U);
  EXPECT_EQ(shape.value_dim, 16U);
  EXPECT_EQ(shape.feed_forward_dim, 128U);
  EXPECT_EQ(shape.context_length, 2048U);
  EXPECT_EQ(shape.rope.layout, RopeLayout::kInterleaved);
  EXPECT_EQ(shape.rope.dimensions, 16U);
  EXPECT_EQ(shape.rope.base, 10000.0F);
  EXPECT_EQ(shape.rope.scaling, RopeScaling::kNone);
  EXPECT_FLOAT_EQ(shape.attention_scale, 0.25F);
  EXPECT_EQ(shape.embedding_scale, 1.0F);
  EXPECT_TRUE(shape.tied_output);
  EXPECT_FALSE(shape.qkv_bias || shape.qk_norm || shape.post_norms || shape.gelu);
  EXPECT_EQ(shape.weight_bytes, 4 * shape.parameter_count);
  EXPECT_FALSE(generated("tiny-untied").tied_output);
}

TEST(ShapeReader, EachArchitectureBringsItsFeatures) {
  const ModelShape qwen2 = generated("tiny-qwen2");
  EXPECT_TRUE(qwen2.qkv_bias && !qwen2.qk_norm);
  EXPECT_EQ(qwen2.rope.layout, RopeLayout::kHalves);
  const ModelShape qwen3 = generated("tiny-qwen3");
  EXPECT_TRUE(!qwen3.qkv_bias && qwen3.qk_norm && !qwen3.post_norms);
  const ModelShape gemma = generated("tiny-gemma3");
  EXPECT_TRUE(gemma.qk_norm && gemma.post_norms && gemma.gelu);
  EXPECT_EQ(gemma.rope.base, 1e6F);
  EXPECT_EQ(gemma.rope.base_local, 1e4F);
  EXPECT_EQ(gemma.sliding_window, 32U);
  EXPECT_EQ(gemma.global_layer_period, 6U);
  EXPECT_TRUE(gemma.is_local_layer(0) && gemma.is_local_layer(4) && !gemma.is_local_layer(5));
  EXPECT_FLOAT_EQ(gemma.embedding_scale, 8.0F);
  EXPECT_FLOAT_EQ(gemma.attention_scale, 0.25F);
  EXPECT_EQ(generated("tiny-head80").key_dim, 80U);
}

TEST(ShapeReader, ReadsEveryKindOfRopeScaling) {
  const RopeSettings linear = generated("tiny-linear").rope;
  EXPECT_EQ(linear.scaling, RopeScaling::kLinear);
  EXPECT_EQ(linear.factor, 4.0F);
  const RopeSettings yarn = generated("tiny-yarn").rope;
  EXPECT_EQ(yarn.scaling, RopeScaling::kYarn);
  EXPECT_EQ(yarn.factor, 4.0F);
  EXPECT_EQ(yarn.original_context, 512U);
  EXPECT_EQ(yarn.attention_factor, 1.0F);
  const RopeSettings llama3 = generated("tiny-llama3").rope;
  EXPECT_EQ(llama3.scaling, RopeScaling::kLlama3);
  ASSERT_EQ(llama3.frequency_factors.size(), 8U);
  EXPECT_FLOAT_EQ(llama3.frequency_factors.front(), 1.0F);  // fast dimensions stay
  EXPECT_FLOAT_EQ(llama3.frequency_factors.back(), 8.0F);   // slow ones are stretched by 8
  EXPECT_EQ(generated("tiny-partial").rope.dimensions, 8U);
}

TEST(ShapeReader, ReadsTheOldKeyOfLinearScalingAndAFactorOfOneIsNone) {
  auto builder = smallest_model("llama");
  const auto old_key = shape_of(builder.real("llama.rope.scale_linear", 2.0F));
  ASSERT_TRUE(old_key.ok()) << old_key.error().message;
  EXPECT_EQ(old_key->rope.scaling, RopeScaling::kLinear);
  EXPECT_EQ(old_key->rope.factor, 2.0F);
  const auto one = shape_of(smallest_model("llama")
                                .text("llama.rope.scaling.type", "linear")
                                .real("llama.rope.scaling.factor", 1.0F));
  EXPECT_EQ(one->rope.scaling, RopeScaling::kNone);
}

TEST(ShapeReader, ReadsYarnsOptionalNumbers) {
  auto builder = smallest_model("qwen3")
                     .text("qwen3.rope.scaling.type", "yarn")
                     .real("qwen3.rope.scaling.factor", 2.0F)
                     .real("qwen3.rope.scaling.attn_factor", 1.5F)
                     .real("qwen3.rope.scaling.yarn_beta_fast", 16.0F);
  const auto shape = shape_of(builder);
  ASSERT_TRUE(shape.ok()) << shape.error().message;
  EXPECT_EQ(shape->rope.attention_factor, 1.5F);
  EXPECT_EQ(shape->rope.beta_fast, 16.0F);
  EXPECT_EQ(shape->rope.beta_slow, 1.0F);
  EXPECT_EQ(shape->rope.original_context, 1024U);
  expect_refused(builder.remove("qwen3.rope.scaling.factor"), Code::kInvalidArgument,
                 "qwen3.rope.scaling.factor");
}

TEST(ShapeReader, Gemma27BScalesScoresByTheWidthPerHead) {
  const auto small = shape_of(smallest_model("gemma3", 4).number("gemma3.attention.key_length", 4));
  ASSERT_TRUE(small.ok()) << small.error().message;
  EXPECT_FLOAT_EQ(small->attention_scale, 0.5F);
  // 62 layers mark the 27B; its heads are narrower than embedding_dim / head_count = 4.
  auto builder = smallest_model("gemma3", 62);
  builder.number("gemma3.attention.key_length", 2).number("gemma3.attention.value_length", 4);
  for (int i = 0; i < 62; ++i) {
    const std::string prefix = str_cat("blk.", i, ".");
    builder.tensor(prefix + "attn_q.weight", {8, 4})
        .tensor(prefix + "attn_k.weight", {8, 2})
        .tensor(prefix + "attn_q_norm.weight", {2})
        .tensor(prefix + "attn_k_norm.weight", {2});
  }
  const auto large = shape_of(builder);
  ASSERT_TRUE(large.ok()) << large.error().message;
  EXPECT_FLOAT_EQ(large->attention_scale, 1.0F / std::sqrt(4.0F));
}

TEST(ShapeReader, AWindowHoldsForAllLayersOfALlamaAndIsRefusedWhereItsLayersAreUnknown) {
  const auto mistral =
      shape_of(smallest_model("llama").number("llama.attention.sliding_window", 64));
  ASSERT_TRUE(mistral.ok());
  EXPECT_EQ(mistral->sliding_window, 64U);
  EXPECT_EQ(mistral->global_layer_period, 0U);
  const auto wide =
      shape_of(smallest_model("qwen2").number("qwen2.attention.sliding_window", 1024));
  ASSERT_TRUE(wide.ok());
  EXPECT_EQ(wide->sliding_window, 0U);  // covers the context
  expect_refused(smallest_model("qwen2").number("qwen2.attention.sliding_window", 64),
                 Code::kUnsupported, "qwen2.attention.sliding_window");
}

TEST(ShapeReader, AnUnsupportedArchitectureIsRefusedWithTheListOfSupportedOnes) {
  const auto shape = shape_of(smallest_model("llama").text("general.architecture", "mamba"));
  ASSERT_FALSE(shape.ok());
  EXPECT_EQ(shape.error().code, Code::kUnsupported);
  EXPECT_NE(shape.error().message.find("mamba"), std::string::npos);
  EXPECT_NE(shape.error().hint.find("llama, qwen2, qwen3, gemma3"), std::string::npos);
}

TEST(ShapeReader, FeaturesThatWouldChangeTheAnswerAreRefusedNotIgnored) {
  expect_refused(smallest_model("llama").number("llama.expert_count", 8), Code::kUnsupported,
                 "expert_count");
  expect_refused(smallest_model("llama").real("llama.logit_scale", 0.5F), Code::kUnsupported,
                 "logit_scale");
  expect_refused(smallest_model("llama").flag("llama.attention.causal", false), Code::kUnsupported,
                 "attention.causal");
  expect_refused(smallest_model("llama").flag("llama.attention.causal", false), Code::kUnsupported,
                 "no context of it can be reused");  // A6
  expect_refused(smallest_model("qwen3").text("qwen3.rope.scaling.type", "longrope"),
                 Code::kUnsupported, "longrope");
  expect_refused(smallest_model("llama").tensor("blk.0.attn_sub_norm.weight", {8}),
                 Code::kUnsupported, "blk.0.attn_sub_norm.weight");
  expect_refused(smallest_model("llama", 2).number("llama.block_count", 1), Code::kUnsupported,
                 "blk.1.");
}

TEST(ShapeReader, TensorsThatDoNotFitAreNamedWithBothSizes) {
  expect_refused(smallest_model("llama").remove_tensor("blk.0.ffn_up.weight"), Code::kDataLoss,
                 "blk.0.ffn_up.weight: is missing");
  expect_refused(smallest_model("llama").tensor("blk.0.ffn_up.weight", {16, 8}), Code::kDataLoss,
                 "blk.0.ffn_up.weight: has dimensions [16, 8], must have [8, 16]");
  expect_refused(smallest_model("qwen2").remove_tensor("blk.0.attn_k.bias"), Code::kDataLoss,
                 "blk.0.attn_k.bias");
  expect_refused(smallest_model("gemma3").remove_tensor("blk.0.post_ffw_norm.weight"),
                 Code::kDataLoss, "blk.0.post_ffw_norm.weight");
  expect_refused(smallest_model("llama").tensor("rope_freqs.weight", {3}), Code::kDataLoss,
                 "rope_freqs.weight");
  expect_refused(smallest_model("llama").tensor("rope_freqs.weight", {2}, 0.0F), Code::kDataLoss,
                 "frequency factor");
  expect_refused(smallest_model("llama").tensor("output.weight", {8, 4}), Code::kDataLoss,
                 "output.weight");
}

TEST(ShapeReader, HeadSizesMayBeGivenApartFromTheWidth) {
  auto builder = smallest_model("qwen3").number("qwen3.attention.key_length", 6);
  builder.tensor("blk.0.attn_q.weight", {8, 12})
      .tensor("blk.0.attn_k.weight", {8, 6})
      .tensor("blk.0.attn_q_norm.weight", {6})
      .tensor("blk.0.attn_k_norm.weight", {6});
  const auto shape = shape_of(builder);
  ASSERT_TRUE(shape.ok()) << shape.error().message;
  EXPECT_EQ(shape->key_dim, 6U);
  EXPECT_EQ(shape->value_dim, 4U);
}

// Every required number, missing.
TEST(ShapeReader, AMissingNumberIsNamed) {
  for (const std::string key :
       {"block_count", "embedding_length", "feed_forward_length", "context_length",
        "attention.head_count", "attention.layer_norm_rms_epsilon"}) {
    expect_refused(smallest_model("llama").remove("llama." + key), Code::kInvalidArgument,
                   "llama." + key);
  }
}

}  // namespace
}  // namespace refrain::model
