// What summaries are made of: a conversation's turns and keys, the book, and the text of a summary.
#include "serve/conversation.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "serve/summary_book.h"
#include "serve/summary_job.h"
#include "support/chats.h"

namespace refrain::serve {
namespace {

using test::chat;
using test::turns;
using test::words;
using text::ChatMessage;

std::string roles_and_text(const std::vector<ChatMessage>& messages) {
  std::string text;
  for (const ChatMessage& message : messages)
    text += message.content == kSummaryRequest ? "?" : message.role.substr(0, 1) + message.content;
  return text;
}

TEST(Conversation, TurnsBeginWithAUserAndHoldAllUpToTheNext) {
  const Conversation conversation(chat({{"system", "S"},
                                        {"assistant", "Hello"},
                                        {"user", "1"},
                                        {"user", "1b"},
                                        {"assistant", "A"},
                                        {"tool", "T"},
                                        {"assistant", "B"},
                                        {"user", "2"}}),
                                  {});
  ASSERT_EQ(conversation.turn_count(), 2U);
  EXPECT_EQ(conversation.turn_begin(0), 2U);
  EXPECT_EQ(conversation.turn_begin(1), 7U);
  EXPECT_EQ(roles_and_text(conversation.shortened({}, 0)), "sSaHellou1u1baAtTaBu2");
  EXPECT_EQ(roles_and_text(conversation.shortened({1, "sum"}, 1)), "sSaHello?asumu2");
  EXPECT_EQ(roles_and_text(conversation.asking({}, 1)), "sSaHellou1u1baAtTaB?");
  EXPECT_EQ(conversation.shortened_begin({1, "sum"}, 1), 4U);
  EXPECT_EQ(Conversation(chat({{"system", "S"}}), {}).turn_count(), 0U);
}

TEST(Conversation, KeysAreOfAllThatStandsInFront) {
  const auto key = [](const std::vector<ChatMessage>& messages, std::size_t turn, Hash128 seed) {
    return Conversation(messages, seed).key(turn);
  };
  EXPECT_EQ(key(turns(2), 1, {}), key(turns(3), 1, {}));
  EXPECT_NE(key(turns(2), 1, {}), key(turns(2), 2, {}));
  EXPECT_NE(key(turns(2), 1, {}), key(turns(2), 1, hash_text("other tenant")));
  EXPECT_NE(key(chat({{"user", "ab"}, {"assistant", "c"}, {"user", ""}}), 1, {}),
            key(chat({{"user", "a"}, {"assistant", "bc"}, {"user", ""}}), 1, {}));
}

TEST(SummaryBook, HoldsTheBytesItMayAndForgetsTheOldest) {
  SummaryBook book(3 * (SummaryBook::kEntryBytes + 10));
  const auto key = [](int i) { return hash_text(std::to_string(i)); };
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(book.begin(key(i)));
    EXPECT_FALSE(book.begin(key(i)));
    EXPECT_TRUE(book.is_being_made(key(i)));
    EXPECT_FALSE(book.find(key(i)).has_value());
    book.finish(key(i), Conclusion{.text = words(10, 'x')});
  }
  EXPECT_TRUE(book.find(key(0)).has_value());
  ASSERT_TRUE(book.begin(key(3)));
  book.finish(key(3), Conclusion{.text = words(10, 'x')});
  EXPECT_FALSE(book.find(key(1)).has_value());
  EXPECT_TRUE(book.find(key(0)).has_value());
  EXPECT_LE(book.bytes(), 3 * (SummaryBook::kEntryBytes + 10));
  ASSERT_TRUE(book.begin(key(4)));
  book.give_up(key(4));
  EXPECT_TRUE(book.begin(key(4)));
}

TEST(WithoutRepeats, SaysNothingTwiceInARow) {
  EXPECT_EQ(without_repeats("It is red. It is red. It is red. Ends"), "It is red. Ends");
  EXPECT_EQ(without_repeats("One. Two. Three. One. Two. Three. One. Two."),
            "One. Two. Three. One. Two.");
  // What comes again elsewhere may be another fact.
  const std::string list =
      "Ticket 41:\n- open\n- Owner: Maria\nTicket 42:\n- open\n- Owner: Maria\n";
  EXPECT_EQ(without_repeats(list), list);
  EXPECT_EQ(without_repeats("1. one\n2. two\n"), "1. one\n2. two\n");
  EXPECT_EQ(without_repeats(""), "");
}

}  // namespace
}  // namespace refrain::serve
