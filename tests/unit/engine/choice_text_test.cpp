// Text on its way out: UTF-8 (O-17), stop strings (O-18), and logprobs that stay with it (O-45).
#include "engine/choice_text.h"

#include <gtest/gtest.h>

#include "base/str.h"

namespace refrain::engine {
namespace {

struct Outcome {
  std::string text;
  std::string item_bytes;
  std::vector<std::string> pieces;  // text of each release
  std::string matched;
};

Outcome feed(const std::vector<std::string>& tokens, std::vector<std::string> stops) {
  ChoiceText text(std::move(stops));
  Outcome outcome;
  const auto take = [&](ChoiceText::Release release) {
    outcome.text += release.text;
    outcome.pieces.push_back(release.text);
    for (const TokenLogprob& item : release.logprobs) outcome.item_bytes += item.bytes;
    if (release.stopped) outcome.matched = release.matched;
    // Items never run ahead of their text.
    EXPECT_LE(outcome.item_bytes.size(), outcome.text.size());
    return !release.stopped;
  };
  bool going = true;
  for (std::size_t i = 0; i < tokens.size() && going; ++i)
    going = take(text.push(tokens[i], TokenLogprob{.token = TokenId{0}, .bytes = tokens[i]}));
  if (going) take(text.finish());
  return outcome;
}

std::vector<std::string> bytes_of(const std::string& text) {
  std::vector<std::string> bytes;
  for (const char c : text) bytes.emplace_back(1, c);
  return bytes;
}

TEST(ChoiceText, EveryPieceIsValidUtf8HoweverTokensAreCut) {  // O-17
  const std::string text = "🦙日本語👩‍👩‍👧‍👦é";
  for (std::size_t size = 1; size <= 7; ++size) {
    std::vector<std::string> tokens;
    for (std::size_t i = 0; i < text.size(); i += size) tokens.push_back(text.substr(i, size));
    const Outcome outcome = feed(tokens, {});
    EXPECT_EQ(outcome.text, text);
    EXPECT_EQ(outcome.item_bytes, text);
    for (const std::string& piece : outcome.pieces) EXPECT_TRUE(is_valid_utf8(piece));
  }
}

TEST(ChoiceText, ACharacterCutByTheEndIsReplacedOnce) {  // O-17
  const Outcome outcome = feed({"a", "\xF0\x9F", "\xA6"}, {});
  EXPECT_EQ(outcome.text, "a\xEF\xBF\xBD");
}

TEST(ChoiceText, StopsThatSpanTokensLeakNothingAndLoseNothing) {  // O-18
  const std::vector<std::string> tokens = {"three", " four", " five", " six", " seven", "."};
  struct Case {
    std::vector<std::string> stops;
    std::string text;
    std::string matched;
  };
  for (const Case& c :
       std::vector<Case>{{{"five six"}, "three four ", "five six"},
                         {{"ive si"}, "three four f", "ive si"},
                         {{"five sixty"}, "three four five six seven.", ""},
                         {{".", " six"}, "three four five", " six"},
                         {{std::string(500, 'x')}, "three four five six seven.", ""},
                         {{"seven.!"}, "three four five six seven.", ""},
                         {{"three"}, "", "three"}}) {
    const Outcome outcome = feed(tokens, c.stops);
    EXPECT_EQ(outcome.text, c.text);
    EXPECT_EQ(outcome.matched, c.matched);
    EXPECT_EQ(outcome.item_bytes, c.text) << "joined items = joined text (O-45)";
    const Outcome by_byte = feed(bytes_of("three four five six seven."), c.stops);
    EXPECT_EQ(by_byte.text, c.text);
    EXPECT_EQ(by_byte.item_bytes, c.text);
  }
}

TEST(ChoiceText, AStopInsideCodePointsStillStops) {
  const Outcome outcome = feed(bytes_of("日本語"), {"本"});
  EXPECT_EQ(outcome.text, "日");
  EXPECT_EQ(outcome.item_bytes, "日");
}

TEST(ChoiceText, TokensWithoutTextKeepTheirItems) {
  ChoiceText text({});
  EXPECT_EQ(text.push("", TokenLogprob{}).logprobs.size(), 1U);
  EXPECT_EQ(text.push("\xE6", TokenLogprob{}).logprobs.size(), 0U);
  EXPECT_EQ(text.push("", TokenLogprob{}).logprobs.size(), 0U);
  EXPECT_EQ(text.push("\x97\xA5", TokenLogprob{}).logprobs.size(), 3U);
}

}  // namespace
}  // namespace refrain::engine
