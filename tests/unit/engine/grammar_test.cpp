// Grammars over a byte vocabulary: what is allowed, when a text is complete, and the bounds on
// what clients send.
#include "engine/grammar.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/rng.h"
#include "base/str.h"
#include "engine/sampler.h"
#include "support/byte_tokenizer.h"

namespace refrain::engine {
namespace {

using Json = nlohmann::json;
using test::ByteTokenizer;

class GrammarTest : public testing::Test {
 protected:
  std::unique_ptr<GrammarState> start(const GrammarSpec& spec) {
    auto compiled = compiler_.compile(spec);
    EXPECT_TRUE(compiled.ok()) << (compiled.ok() ? "" : compiled.error().message);
    if (!compiled.ok()) return nullptr;
    kept_ = *compiled;
    return GrammarCompiler::start(*kept_);
  }
  Error error_of(const GrammarSpec& spec) {
    auto compiled = compiler_.compile(spec);
    EXPECT_FALSE(compiled.ok());
    return compiled.ok() ? Error{} : compiled.error();
  }
  bool accepts(GrammarState& state, const std::string& text) {
    for (const TokenId token : tokenizer_.encode(text, {}))
      if (!state.accept(token)) return false;
    return true;
  }
  // Random text under the grammar, ended by it.
  std::string random_text(GrammarState& state, std::uint64_t seed) {
    Rng rng(seed);
    Sampler sampler({.temperature = 1.0F}, seed, {});
    std::string text;
    while (!state.finished() && text.size() < 5000) {
      std::vector<float> logits(tokenizer_.size());
      for (float& logit : logits) logit = static_cast<float>(rng.uniform() * 4);
      logits[static_cast<std::size_t>('}')] += 5;  // else it rambles on
      logits[static_cast<std::size_t>('"')] += 5;
      logits[static_cast<std::size_t>(to_int(ByteTokenizer::kEos))] += 9;
      const auto sample = sampler.sample(logits, &state);
      EXPECT_TRUE(sample.ok());
      if (!sample.ok() || sample->token == ByteTokenizer::kEos) break;
      EXPECT_TRUE(state.accept(sample->token));
      text += tokenizer_.piece(sample->token);
    }
    return text;
  }

  ByteTokenizer tokenizer_{{"true", "null", "{\"", "\": \""}};
  GrammarCompiler compiler_{tokenizer_};
  std::shared_ptr<const CompiledGrammar> kept_;
};

const char* const kPersonSchema =
    R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},
        "required":["name","age"]})";

TEST_F(GrammarTest, AJsonObjectIsAllowedAndEndsAtItsLastBrace) {
  auto state = start({.kind = GrammarSpec::Kind::kJsonObject});
  EXPECT_TRUE(accepts(*state, R"({"a": [1, 2, {"b": null}], "c": "é\n"})"));
  EXPECT_TRUE(state->finished());
  state = start({.kind = GrammarSpec::Kind::kJsonObject});
  EXPECT_TRUE(accepts(*state, R"({"a": )"));
  EXPECT_FALSE(state->finished());
  EXPECT_FALSE(accepts(*state, "}"));
}

TEST_F(GrammarTest, AnArrayOrPlainTextIsNoJsonObject) {
  EXPECT_FALSE(accepts(*start({.kind = GrammarSpec::Kind::kJsonObject}), "["));
  EXPECT_FALSE(accepts(*start({.kind = GrammarSpec::Kind::kJsonObject}), "Sure"));
}

TEST_F(GrammarTest, ASchemaFixesKeysAndTypes) {
  const GrammarSpec spec{.kind = GrammarSpec::Kind::kJsonSchema, .schema_json = kPersonSchema};
  EXPECT_TRUE(accepts(*start(spec), R"({"name": "Ada", "age": 36})"));
  EXPECT_FALSE(accepts(*start(spec), R"({"name": 5)"));
  EXPECT_FALSE(accepts(*start(spec), R"({"title")"));
}

TEST_F(GrammarTest, AnythingSampledUnderASchemaIsValid) {
  const GrammarSpec spec{.kind = GrammarSpec::Kind::kJsonSchema, .schema_json = kPersonSchema};
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    const std::string text = random_text(*start(spec), seed);
    const Json value = Json::parse(text, nullptr, false);
    ASSERT_FALSE(value.is_discarded()) << text;
    EXPECT_TRUE(value.at("name").is_string());
    EXPECT_TRUE(value.at("age").is_number_integer());
  }
}

TEST_F(GrammarTest, ATextThatMayGoOnIsNotFinishedButMayEnd) {
  auto state =
      start({.kind = GrammarSpec::Kind::kJsonSchema, .schema_json = R"({"type":"integer"})"});
  EXPECT_TRUE(accepts(*state, "12"));
  EXPECT_FALSE(state->finished());
  std::vector<float> logits(tokenizer_.size(), 0.0F);
  state->mask(logits);
  EXPECT_EQ(logits[static_cast<std::size_t>(to_int(ByteTokenizer::kEos))], 0.0F);
  EXPECT_EQ(logits['3'], 0.0F);
  EXPECT_TRUE(std::isinf(logits['x']));
  EXPECT_TRUE(state->accept(ByteTokenizer::kEos));
  EXPECT_TRUE(state->finished());
}

TEST_F(GrammarTest, EndTokensAreForbiddenInsideAndOtherControlTokensAlways) {
  auto state = start({.kind = GrammarSpec::Kind::kJsonObject});
  std::vector<float> logits(tokenizer_.size(), 0.0F);
  state->mask(logits);
  EXPECT_TRUE(std::isinf(logits[static_cast<std::size_t>(to_int(ByteTokenizer::kEos))]));
  EXPECT_TRUE(std::isinf(logits[static_cast<std::size_t>(to_int(ByteTokenizer::kBos))]));
}

const char* const kTools =
    R"([{"name":"get_weather","parameters":{"type":"object","properties":
          {"city":{"$ref":"#/$defs/city"}},"required":["city"],"$defs":{"city":{"type":"string"}}}},
        {"name":"stop"}])";

TEST_F(GrammarTest, AForcedToolCallHasItsForm) {
  const GrammarSpec spec{.kind = GrammarSpec::Kind::kToolCall, .tools_json = kTools};
  auto state = start(spec);
  EXPECT_TRUE(accepts(*state,
                      "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": "
                      "\"Paris\"}}\n</tool_call>"));
  EXPECT_TRUE(state->finished()) << "one call, then the end";
  EXPECT_FALSE(accepts(*start(spec), "<tool_call>\n{\"name\": \"unknown"));
  EXPECT_FALSE(accepts(*start(spec), "Sure"));
  EXPECT_TRUE(
      accepts(*start(spec), "<tool_call>\n{\"name\": \"stop\", \"arguments\": {}}\n</tool_call>"));
}

TEST_F(GrammarTest, ParallelCallsMayFollowEachOther) {
  auto state =
      start({.kind = GrammarSpec::Kind::kToolCall, .tools_json = kTools, .parallel_calls = true});
  const std::string call = "<tool_call>\n{\"name\": \"stop\", \"arguments\": {}}\n</tool_call>";
  EXPECT_TRUE(accepts(*state, call));
  EXPECT_FALSE(state->finished());
  EXPECT_TRUE(accepts(*state, "\n" + call));
  EXPECT_TRUE(state->accept(ByteTokenizer::kEos));
}

TEST_F(GrammarTest, EqualSpecsAreCompiledOnce) {
  const GrammarSpec spec{.kind = GrammarSpec::Kind::kJsonSchema, .schema_json = kPersonSchema};
  EXPECT_EQ(compiler_.compile(spec).value(), compiler_.compile(spec).value());
}

TEST_F(GrammarTest, TheCacheIsBounded) {
  GrammarCompiler small(tokenizer_, GrammarLimits{.max_cached = 2});
  const auto spec = [](int i) {
    return GrammarSpec{.kind = GrammarSpec::Kind::kJsonSchema,
                       .schema_json = str_cat(R"({"const":)", i, "}")};
  };
  const std::weak_ptr<const CompiledGrammar> first = small.compile(spec(1)).value();
  EXPECT_FALSE(first.expired());
  for (int i = 2; i < 4; ++i) EXPECT_TRUE(small.compile(spec(i)).ok());
  EXPECT_TRUE(first.expired());
}

TEST_F(GrammarTest, WhatIsTooLargeOrNoSchemaIsRefusedByField) {
  const auto schema = [](std::string text) {
    return GrammarSpec{.kind = GrammarSpec::Kind::kJsonSchema, .schema_json = std::move(text)};
  };
  EXPECT_EQ(error_of(schema("{")).field, "response_format");
  EXPECT_EQ(error_of(schema("{")).code, Code::kInvalidArgument);
  EXPECT_EQ(error_of(schema("")).code, Code::kInvalidArgument);
  EXPECT_EQ(error_of(schema("\"" + std::string(70000, 'x') + "\"")).code, Code::kTooLarge);
  std::string deep = R"({"type":"string"})";
  for (int i = 0; i < 40; ++i) deep = R"({"type":"array","items":)" + deep + "}";
  EXPECT_EQ(error_of(schema(deep)).code, Code::kTooLarge);
  std::string wide = "0";
  for (int i = 0; i < 12000; ++i) wide += ",0";
  EXPECT_EQ(error_of(schema(R"({"enum":[)" + wide + "]}")).code, Code::kTooLarge);
  EXPECT_EQ(error_of(schema(std::string(60000, '['))).code, Code::kInvalidArgument);
  EXPECT_EQ(error_of({.kind = GrammarSpec::Kind::kToolCall, .tools_json = "[]"}).field, "tools");
  EXPECT_EQ(error_of({.kind = GrammarSpec::Kind::kToolCall, .tools_json = R"([{"name":5}])"}).field,
            "tools");
}

TEST_F(GrammarTest, PatternsThatWouldCompileForSecondsAreRefused) {
  const auto pattern = [](const std::string& text) {
    return GrammarSpec{.kind = GrammarSpec::Kind::kJsonSchema,
                       .schema_json = Json{{"type", "string"}, {"pattern", text}}.dump()};
  };
  EXPECT_EQ(error_of(pattern("(a|b|c|d){5000}(ab|cd){3000}")).code, Code::kTooLarge);
  EXPECT_EQ(error_of(pattern("(a{1,99999999999999999999})")).code, Code::kTooLarge);
  EXPECT_EQ(error_of(pattern(std::string(2000, 'a'))).code, Code::kTooLarge);
  EXPECT_TRUE(compiler_.compile(pattern("^[A-Z]{3}-[0-9]{2,4}$")).ok());
}

TEST_F(GrammarTest, AnUnusableSchemaIsTheClientsFaultAndNamesNoFileOfOurs) {
  for (const char* text : {R"({"$ref":"#"})", R"({"type":"banana"})", R"({"$ref":"#/$defs/x"})",
                           R"({"type":"string","pattern":"("})", R"(5)", R"("x")", R"([])",
                           R"({"type":"string","minLength":-1})", R"({"minItems":1e300})"}) {
    const auto compiled =
        compiler_.compile({.kind = GrammarSpec::Kind::kJsonSchema, .schema_json = text});
    if (compiled.ok()) continue;
    EXPECT_EQ(compiled.error().code, Code::kInvalidArgument) << text;
    EXPECT_EQ(compiled.error().message.find(".cc"), std::string::npos) << compiled.error().message;
    EXPECT_EQ(compiled.error().field, "response_format");
  }
  EXPECT_FALSE(
      compiler_.compile({.kind = GrammarSpec::Kind::kJsonSchema, .schema_json = R"({"$ref":"#"})"})
          .ok());
}

}  // namespace
}  // namespace refrain::engine
