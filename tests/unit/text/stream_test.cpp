// TextDecoder (O-17) and StopMatcher (O-18) on the cases that went wrong elsewhere.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/stop_matcher.h"
#include "text/text_decoder.h"

namespace refrain::text {
namespace {

TEST(TextDecoder, holds_a_code_point_back_until_it_is_complete) {  // O-17
  TextDecoder decoder;
  EXPECT_EQ(decoder.push("a\xF0\x9F"), "a");
  EXPECT_EQ(decoder.pending_bytes(), 2U);
  EXPECT_EQ(decoder.push("\xA6"), "");
  EXPECT_EQ(decoder.push("\x99"
                         "b"),
            "🦙b");
  EXPECT_EQ(decoder.finish(), "");
}

TEST(TextDecoder, an_unfinished_code_point_becomes_one_replacement_character_at_the_end) {  // O-17
  TextDecoder decoder;
  EXPECT_EQ(decoder.push("\xE6\xBC"), "");
  EXPECT_EQ(decoder.finish(), "\uFFFD");
  EXPECT_EQ(decoder.finish(), "");
}

TEST(TextDecoder, ill_formed_bytes_are_replaced_at_once) {
  TextDecoder decoder;
  EXPECT_EQ(decoder.push("\xFF\xC3"), "\uFFFD");
  EXPECT_EQ(decoder.push("x"), "\uFFFDx");
  EXPECT_EQ(decoder.push("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
}

struct Outcome {
  std::string text;
  std::string matched;
};

Outcome run(std::vector<std::string> stops, const std::vector<std::string>& pieces) {
  StopMatcher matcher(std::move(stops));
  Outcome outcome;
  for (const std::string& piece : pieces) {
    const StopMatcher::Step step = matcher.push(piece);
    outcome.text += step.released;
    if (step.stopped) {
      outcome.matched = step.matched;
      return outcome;
    }
  }
  outcome.text += matcher.finish();
  return outcome;
}

TEST(StopMatcher, finds_a_stop_string_that_spans_pieces) {  // O-18
  StopMatcher matcher({"five six"});
  StopMatcher::Step step = matcher.push("four fi");
  EXPECT_EQ(step.released, "four ");
  EXPECT_FALSE(step.stopped);
  step = matcher.push("ve six seven");
  EXPECT_EQ(step.released, "");
  EXPECT_TRUE(step.stopped);
  EXPECT_EQ(step.matched, "five six");
}

TEST(StopMatcher, loses_nothing_when_the_stop_string_never_completes) {  // O-18
  const Outcome outcome = run({"five sixty"}, {"four fi", "ve six", "t"});
  EXPECT_EQ(outcome.text, "four five sixt");
  EXPECT_EQ(outcome.matched, "");
}

TEST(StopMatcher, falls_back_to_a_shorter_beginning) {
  EXPECT_EQ(run({"aab"}, {"a", "a", "a", "b", "c"}).text, "a");
  EXPECT_EQ(run({"abcd", "bx"}, {"abc", "bx"}).text, "abc");
}

TEST(StopMatcher, the_match_complete_first_wins_and_of_those_the_longest) {
  EXPECT_EQ(run({"abcd", "bc"}, {"xabcd"}).matched, "bc");
  EXPECT_EQ(run({"abcd", "bc"}, {"xabcd"}).text, "xa");
  EXPECT_EQ(run({"c", "abc"}, {"xab", "c"}).matched, "abc");
}

TEST(StopMatcher, without_stop_strings_everything_passes) {
  StopMatcher matcher({});
  EXPECT_TRUE(matcher.empty());
  EXPECT_EQ(matcher.push("abc").released, "abc");
}

}  // namespace
}  // namespace refrain::text
