// Words of each pre-tokenizer on the places where the patterns differ. That they equal the regular
// expressions on whole corpora is shown in tests/golden/tokenizer_test.py (O-30).
#include "text/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace refrain::text {
namespace {

using Words = std::vector<std::string>;

Words words_of(std::string_view name, std::string_view text) {
  const auto pre_tokenizer = PreTokenizer::named(name);
  EXPECT_TRUE(pre_tokenizer.ok());
  Words words;
  auto scanner = pre_tokenizer.value().scan(text);
  for (std::string_view word; scanner.next(word);) words.emplace_back(word);
  return words;
}

TEST(PreTokenizer, gpt2_takes_one_blank_along_and_leaves_the_rest_of_a_run_behind) {
  EXPECT_EQ(words_of("gpt-2", "it's 12  o'clock "),
            (Words{"it", "'s", " 12", " ", " o", "'", "clock", " "}));
}

TEST(PreTokenizer, gpt2_contractions_are_case_sensitive_and_llama3s_are_not) {
  EXPECT_EQ(words_of("gpt-2", "WE'LL"), (Words{"WE", "'", "LL"}));
  EXPECT_EQ(words_of("llama-bpe", "WE'LL"), (Words{"WE", "'LL"}));
  EXPECT_EQ(words_of("llama-bpe", "a'ſb"), (Words{"a", "'ſ", "b"}));
}

TEST(PreTokenizer, smollm_splits_digits_one_by_one_and_without_their_blank) {
  EXPECT_EQ(words_of("smollm", "in 1999!"), (Words{"in", " ", "1", "9", "9", "9", "!"}));
  EXPECT_EQ(words_of("smollm", "½²Ⅷ"), (Words{"½", "²", "Ⅷ"}));
}

TEST(PreTokenizer, llama3_groups_digits_by_threes_and_qwen2_by_one) {
  EXPECT_EQ(words_of("llama-bpe", "x 12345"), (Words{"x", " ", "123", "45"}));
  EXPECT_EQ(words_of("qwen2", "x 123"), (Words{"x", " ", "1", "2", "3"}));
}

TEST(PreTokenizer, llama3_line_breaks_end_a_word_of_blanks_or_of_marks) {
  EXPECT_EQ(words_of("llama-bpe", "a  \n \n  b"), (Words{"a", "  \n \n", " ", " b"}));
  EXPECT_EQ(words_of("llama-bpe", "x);\r\ny"), (Words{"x", ");\r\n", "y"}));
  EXPECT_EQ(words_of("llama-bpe", "(a\tb"), (Words{"(a", "\tb"}));
}

TEST(PreTokenizer, default_cuts_out_punctuation_and_threes_of_digits) {
  EXPECT_EQ(words_of("", "a.b 12345"), (Words{"a", ".", "b", " ", "123", "45"}));
  EXPECT_EQ(words_of("default", "12²345"), (Words{"12²", "345"}));
}

TEST(PreTokenizer, ill_formed_bytes_are_characters_of_no_class) {
  EXPECT_EQ(words_of("gpt-2", "a\xFF\xC3 b"), (Words{"a", "\xFF\xC3", " b"}));
}

TEST(PreTokenizer, unknown_names_are_refused_with_the_list_of_known_ones) {
  const auto refused = PreTokenizer::named("tekken");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  for (const char* name : {"gpt-2", "llama-bpe", "qwen2", "smollm", "default"})
    EXPECT_NE(refused.error().hint.find(name), std::string::npos) << name;
}

}  // namespace
}  // namespace refrain::text
