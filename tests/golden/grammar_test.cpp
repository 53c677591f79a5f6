// Grammars over the 49,152 tokens of SmolLM2: whatever is sampled is valid JSON of the schema, in
// pieces that the real tokenizer has, and the masks are cheap.
#include "engine/grammar.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/rng.h"
#include "engine/sampler.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace refrain::engine {
namespace {

using Json = nlohmann::json;

class RealVocabulary : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto model =
        model::Model::load({.path = REFRAIN_TEST_MODELS "/SmolLM2-135M-Instruct.Q4_1.gguf"});
    ASSERT_TRUE(model.ok()) << model.error().message;
    auto tokenizer = text::Tokenizer::create((*model)->vocabulary());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    tokenizer_ = std::move(tokenizer).value();
    compiler_ = std::make_unique<GrammarCompiler>(*tokenizer_);
  }
  static void TearDownTestSuite() {
    compiler_.reset();
    tokenizer_.reset();
  }

  std::unique_ptr<GrammarState> start(const GrammarSpec& spec) {
    auto compiled = compiler_->compile(spec);
    EXPECT_TRUE(compiled.ok()) << (compiled.ok() ? "" : compiled.error().message);
    kept_ = std::move(compiled).value();
    return GrammarCompiler::start(*kept_);
  }

  // Random text under the grammar; closing characters are favoured so that it comes to an end.
  std::string random_text(const GrammarSpec& spec, std::uint64_t seed) {
    auto state = start(spec);
    Rng rng(seed);
    Sampler sampler({.temperature = 1.0F, .top_k = 40}, seed, {});
    std::string text;
    std::vector<float> logits(tokenizer_->size());
    for (int step = 0; step < 400 && !state->finished(); ++step) {
      for (float& logit : logits) logit = static_cast<float>(rng.uniform() * 4);
      for (const char* closing : {"}", "\"", "\"}", "]"})
        if (const auto token = tokenizer_->find(closing))
          logits[static_cast<std::size_t>(to_int(*token))] += 4;
      const auto sample = sampler.sample(logits, state.get());
      EXPECT_TRUE(sample.ok());
      if (!sample.ok()) break;
      EXPECT_TRUE(state->accept(sample->token));
      if (tokenizer_->is_end_of_generation(sample->token)) break;
      text += tokenizer_->piece(sample->token);
    }
    EXPECT_TRUE(state->finished()) << text;
    return text;
  }

  static inline std::unique_ptr<text::Tokenizer> tokenizer_;
  static inline std::unique_ptr<GrammarCompiler> compiler_;
  std::shared_ptr<const CompiledGrammar> kept_;
};

const char* const kOrderSchema =
    R"({"type":"object","properties":{"id":{"type":"string","pattern":"^[A-Z]{3}-[0-9]{3}$"},
        "count":{"type":"integer"},"colour":{"enum":["rot","grün","青"]},
        "tags":{"type":"array","items":{"type":"string","maxLength":8},"maxItems":3}},
        "required":["id","count","colour","tags"]})";

TEST_F(RealVocabulary, WhateverIsSampledFitsTheSchema) {
  const GrammarSpec spec{.kind = GrammarSpec::Kind::kJsonSchema, .schema_json = kOrderSchema};
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const std::string text = random_text(spec, seed);
    const Json value = Json::parse(text, nullptr, false);
    ASSERT_FALSE(value.is_discarded()) << text;
    const std::string id = value.at("id");
    EXPECT_EQ(id.size(), 7U);
    EXPECT_TRUE(value.at("count").is_number_integer());
    const std::string colour = value.at("colour");
    EXPECT_TRUE(colour == "rot" || colour == "grün" || colour == "青") << colour;
    EXPECT_LE(value.at("tags").size(), 3U);
  }
}

TEST_F(RealVocabulary, AForcedToolCallIsTextBetweenItsMarkers) {
  const GrammarSpec spec{.kind = GrammarSpec::Kind::kToolCall,
                         .tools_json =
                             R"([{"name":"get_weather","parameters":{"type":"object","properties":
              {"city":{"type":"string","maxLength":20}},"required":["city"]}}])"};
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const std::string text = random_text(spec, seed);
    const std::string begin = "<tool_call>\n", end = "\n</tool_call>";
    ASSERT_TRUE(text.starts_with(begin) && text.ends_with(end)) << text;
    const Json call = Json::parse(
        text.substr(begin.size(), text.size() - begin.size() - end.size()), nullptr, false);
    ASSERT_FALSE(call.is_discarded()) << text;
    EXPECT_EQ(call.at("name"), "get_weather");
    EXPECT_TRUE(call.at("arguments").at("city").is_string());
  }
}

TEST_F(RealVocabulary, TheTokenizersOwnSplitOfAValidTextIsAccepted) {
  auto state = start({.kind = GrammarSpec::Kind::kJsonObject});
  const std::string text = R"({"name": "Zoë", "list": [1.5, true, null], "text": "日本 🦙"})";
  for (const TokenId token : tokenizer_->encode(text, {})) ASSERT_TRUE(state->accept(token));
  EXPECT_TRUE(state->finished());
}

TEST_F(RealVocabulary, AMaskCostsLittle) {
  auto state = start({.kind = GrammarSpec::Kind::kJsonObject});
  const TokenList tokens = tokenizer_->encode(R"({"key": "some longer text in here"})", {});
  std::vector<float> logits(tokenizer_->size());
  const auto begin = std::chrono::steady_clock::now();
  for (const TokenId token : tokens) {
    state->mask(logits);
    ASSERT_TRUE(state->accept(token));
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(took.count() / static_cast<double>(tokens.size()), 20.0) << "milliseconds per token";
}

}  // namespace
}  // namespace refrain::engine
