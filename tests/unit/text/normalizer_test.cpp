// Normalizer: what becomes one form, what stays as it is (A7).
#include "text/normalizer.h"

#include <gtest/gtest.h>

namespace refrain::text {
namespace {

// Each pair: text, canonical form.
using Pairs = std::vector<std::pair<std::string, std::string>>;

void expect_all(const Pairs& pairs) {
  for (const auto& [text, canonical] : pairs) {
    EXPECT_EQ(normalize(text), canonical) << text;
    EXPECT_EQ(normalize(canonical), canonical) << text;
  }
}

TEST(Normalizer, LineBreaksAndEmptyLines) {
  expect_all({{"a\r\nb\rc\nd", "a\nb\nc\nd"},
              {"a\n\n\n\nb", "a\n\nb"},
              {"a\r\n \t \r\n\r\nb", "a\n\nb"},
              {"\n \n  a\n\n", "a"},
              {"a\n", "a"},
              {"", ""},
              {" \n\t\n", ""}});
}

TEST(Normalizer, BlanksInsideAndAtTheEndOfALine) {
  expect_all({{"a  b \t c", "a b c"},
              {"a\u3000\u3000b\u00A0c", "a b c"},
              {"a \nb\t\n", "a\nb"},
              {"one\n  two  three", "one\n  two three"},
              {"  one", "one"}});
}

TEST(Normalizer, Width) {
  expect_all({{"ＡＢＣ　１２３！（ｘ）", "ABC 123!(x)"},
              {"ｶﾞｷﾞﾊﾟﾋﾟｳﾞｶ", "ガギパピヴカ"},
              {"ｺｰﾄﾞ｡ﾞ", "コード。゛"},
              {"漢字、かな", "漢字、かな"},
              {"＂ａ　ｂ＂ ＞ ｀ ～ ｢｣", "＂a b＂ ＞ ｀ ～ ｢｣"}});
}

TEST(Normalizer, QuotedTextStays) {
  expect_all({{"say  \"a  ｂ \"  now", "say \"a  ｂ \" now"},
              {"\u201Ca  b\u201D  c", "\u201Ca  b\u201D c"},
              {"「ａ  ｂ」  ｃ", "「ａ  ｂ」 c"},
              {"«a  b»  c  «d  e", "«a  b» c «d e"},
              {"a 5\"  screen  and", "a 5\" screen and"},
              {"run `a  b`  and ``c ` d  e``  f", "run `a  b` and ``c ` d  e`` f"},
              {"a ```  b  `c  d` ```  e", "a ```  b  `c  d` ``` e"},
              {"> ａ  b  \n>  c", "> ａ  b  \n>  c"}});
}

TEST(Normalizer, CodeStays) {
  expect_all({{"a  b\r\n```c\r\nx  =  1  \r\n\r\n\r\n```\r\nd  e",
               "a b\n```c\r\nx  =  1  \r\n\r\n\r\n```\r\nd e"},
              {"~~~~\na  b\n~~~\n~~~~\nc  d", "~~~~\na  b\n~~~\n~~~~\nc d"},
              {"```\na  b\n\n\n", "```\na  b\n\n\n"},
              {"```\na  b\n``` \n", "```\na  b\n``` "},
              {"x  y\n    a  b  \n\n\n    c  d\n\n\nz", "x y\n    a  b  \n\n\n    c  d\n\nz"},
              {"x\n\ta  b\n", "x\n\ta  b\n"}});
}

// Each search for closing marks that are not there would look through all of the rest.
TEST(Normalizer, LongLinesOfUnclosedMarksEnd) {
  std::string text = "x";
  for (std::size_t length = 2000; length > 0; --length) text += std::string(length, '`') + "  a";
  EXPECT_LT(normalize(text).size(), text.size());
  std::string quotes;
  for (int i = 0; i < 300'000; ++i) quotes += "\u201C\u300C  ";
  EXPECT_LT(normalize(quotes).size(), quotes.size());
}

TEST(Normalizer, IllFormedBytesPassThrough) {
  expect_all({{"a  \xFF\xFE  b", "a \xFF\xFE b"}, {"\xE3\x80", "\xE3\x80"}});
}

TEST(Normalizer, A7OnlyWhatUsersWroteIsRewritten) {
  std::vector<ChatMessage> messages{{.role = "system", .content = "a  b"},
                                    {.role = "user", .content = "a  b"},
                                    {.role = "assistant", .content = "a  b"},
                                    {.role = "tool", .content = "a  b"},
                                    {.role = "user", .content = "a b"}};
  EXPECT_TRUE(normalize_user_messages(messages));
  EXPECT_EQ(messages[0].content, "a  b");
  EXPECT_EQ(messages[1].content, "a b");
  EXPECT_EQ(messages[2].content, "a  b");
  EXPECT_EQ(messages[3].content, "a  b");
  EXPECT_FALSE(normalize_user_messages(messages));
}

}  // namespace
}  // namespace refrain::text
