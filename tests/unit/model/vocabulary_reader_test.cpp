// Vocabularies: what a file may leave out, and which contradictions are refused.
#include "model/vocabulary_reader.h"

#include <gtest/gtest.h>

#include "unit/model/gguf_builder.h"

namespace refrain::model {
namespace {

const std::string kGenerated = REFRAIN_TEST_GENERATED;

GgufBuilder byte_pair() {
  return smallest_model("llama")
      .text("tokenizer.ggml.model", "gpt2")
      .text("tokenizer.ggml.pre", "smollm")
      .texts("tokenizer.ggml.tokens", {"<|im_end|>", "a", "ab"})
      .numbers("tokenizer.ggml.token_type", {3, 1, 1})
      .texts("tokenizer.ggml.merges", {"a b"})
      .number("tokenizer.ggml.eos_token_id", 0);
}

GgufBuilder sentence_piece() {
  return smallest_model("llama")
      .text("tokenizer.ggml.model", "llama")
      .texts("tokenizer.ggml.tokens", {"<s>", "a", "<0x41>"})
      .reals("tokenizer.ggml.scores", {0.0F, -1.0F, 0.0F})
      .numbers("tokenizer.ggml.token_type", {3, 1, 6})
      .number("tokenizer.ggml.bos_token_id", 0);
}

Result<text::Vocabulary> vocabulary_of(const GgufBuilder& builder) {
  ASSIGN_OR_RETURN(const auto file, GgufFile::from_bytes(builder.build(), "test"));
  return read_vocabulary(*file, 3);
}

void expect_refused(const GgufBuilder& builder, const std::string& text) {
  const auto vocabulary = vocabulary_of(builder);
  ASSERT_FALSE(vocabulary.ok()) << text;
  EXPECT_NE(vocabulary.error().message.find(text), std::string::npos) << vocabulary.error().message;
}

TEST(VocabularyReader, ReadsBytePairs) {
  const auto vocabulary = vocabulary_of(byte_pair());
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.error().message;
  EXPECT_EQ(vocabulary->kind, text::VocabularyKind::kBytePair);
  EXPECT_EQ(vocabulary->pre_tokenizer, "smollm");
  EXPECT_EQ(vocabulary->tokens.size(), 3U);
  EXPECT_EQ(vocabulary->types[0], text::TokenType::kControl);
  EXPECT_EQ(vocabulary->merges, (std::vector<std::string>{"a b"}));
  EXPECT_EQ(vocabulary->eos, TokenId{0});
  EXPECT_EQ(vocabulary->eot, TokenId{0});  // by its name
  EXPECT_FALSE(vocabulary->bos.has_value());
  EXPECT_FALSE(vocabulary->add_bos || vocabulary->add_eos || vocabulary->add_space_prefix);
}

TEST(VocabularyReader, SentencePieceWantsABeginTokenAndABlankUnlessTheFileSaysOtherwise) {
  const auto vocabulary = vocabulary_of(sentence_piece());
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.error().message;
  EXPECT_EQ(vocabulary->kind, text::VocabularyKind::kSentencePiece);
  EXPECT_TRUE(vocabulary->add_bos && vocabulary->add_space_prefix);
  EXPECT_EQ(vocabulary->scores[1], -1.0F);
  const auto without = vocabulary_of(sentence_piece()
                                         .flag("tokenizer.ggml.add_bos_token", false)
                                         .flag("tokenizer.ggml.add_space_prefix", false));
  EXPECT_FALSE(without->add_bos || without->add_space_prefix);
}

TEST(VocabularyReader, ATurnEndThatUsersCouldWriteIsNone) {
  const auto vocabulary =
      vocabulary_of(byte_pair().numbers("tokenizer.ggml.token_type", {1, 1, 1}));
  EXPECT_FALSE(vocabulary->eot.has_value());
}

TEST(VocabularyReader, ContradictionsAreRefusedByKey) {
  expect_refused(byte_pair().remove("tokenizer.ggml.model"), "tokenizer.ggml.model");
  expect_refused(byte_pair().text("tokenizer.ggml.model", "bert"), "bert");
  expect_refused(byte_pair().remove("tokenizer.ggml.tokens"), "tokenizer.ggml.tokens");
  expect_refused(byte_pair().texts("tokenizer.ggml.tokens", {"a"}), "lists 1 tokens");
  expect_refused(byte_pair().numbers("tokenizer.ggml.token_type", {1}), "1 entries for 3 tokens");
  expect_refused(byte_pair().numbers("tokenizer.ggml.token_type", {1, 0, 1}), "has type 0");
  expect_refused(byte_pair().numbers("tokenizer.ggml.token_type", {1, -1, 1}), "has type -1");
  expect_refused(byte_pair().remove("tokenizer.ggml.merges"), "tokenizer.ggml.merges");
  for (const char* merge : {"ab", "", " ", "a ", " b", "  "})
    expect_refused(byte_pair().texts("tokenizer.ggml.merges", {"a b", merge}), "entry 1");
  expect_refused(byte_pair().number("tokenizer.ggml.eos_token_id", 3), "3 is not below 3");
  expect_refused(byte_pair().text("tokenizer.ggml.bos_token_id", "x"), "must be an integer");
  expect_refused(sentence_piece().remove("tokenizer.ggml.scores"), "tokenizer.ggml.scores");
  expect_refused(sentence_piece().reals("tokenizer.ggml.scores", {0.0F}), "1 entries");
  expect_refused(sentence_piece().reals("tokenizer.ggml.scores", {0.0F, 0.0F / 0.0F, 0.0F}),
                 "not finite");
}

TEST(VocabularyReader, ReadsTheGeneratedModels) {
  for (const auto& [name, size] : {std::pair{"tiny", 579U}, std::pair{"tiny-gemma3", 717U}}) {
    const auto file = GgufFile::open(kGenerated + "/" + name + ".gguf");
    ASSERT_TRUE(file.ok()) << file.error().message;
    const auto vocabulary = read_vocabulary(**file, size);
    ASSERT_TRUE(vocabulary.ok()) << vocabulary.error().message;
    EXPECT_EQ(vocabulary->types.size(), size);
    EXPECT_TRUE(vocabulary->bos && vocabulary->eos && vocabulary->eot && vocabulary->unknown);
  }
}

}  // namespace
}  // namespace refrain::model
