// Conversation: the messages of a chat request as a head and turns, and what stands in for the
// older turns once they are summarised. A session is known by its messages alone, for a client
// sends all of them every time: the key of a turn is a hash of everything in front of it.
//
//   messages   [ system | user assistant | user assistant tool assistant | user ]
//                head     turn 0           turn 1                          turn 2: the running one
//   key(2) = hash of head, turn 0, turn 1
//
//   shortened(2, text)  [ system | user: kSummaryRequest, assistant: text | turn 2 ]
//   asking(2)           [ system | turn 0 | turn 1 | user: kSummaryRequest ]
//
// So the summary is asked for where all in front of it is in the cache, the head stays shared with
// other sessions, and roles take turns as every template wants it. Immutable; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "text/chat_template.h"

namespace refrain::serve {

// Also part of the prompts that hold a summary: another wording gives other answers.
inline constexpr std::string_view kSummaryRequest =
    "Summarise our conversation so far in a few sentences for someone who will go on with it: what "
    "was asked for, which facts, names and numbers came up, what was decided, and what is still "
    "open. Use the language of the conversation. Write the summary only.";

// What stands in front of turn `end`, in the words of the model; end 0: nothing is replaced.
struct Replaced {
  std::size_t end = 0;
  std::string text = {};
};

class Conversation {
 public:
  // `seed` keeps apart what must not share summaries: tenants, tools, template arguments.
  Conversation(std::vector<text::ChatMessage> messages, const Hash128& seed);

  // The running turn is the last one; 0 without a message of a user.
  std::size_t turn_count() const { return turn_begin_.size(); }
  // Index of the first message of a turn.
  std::size_t turn_begin(std::size_t turn) const { return turn_begin_[turn]; }
  const Hash128& key(std::size_t turn) const { return keys_[turn]; }
  const std::vector<text::ChatMessage>& messages() const { return messages_; }

  // The conversation from turn `first_kept` (>= replaced.end) on, behind head and summary.
  std::vector<text::ChatMessage> shortened(const Replaced& replaced, std::size_t first_kept) const;
  // Head, summary so far and turns up to `end`, and the request for a new summary.
  std::vector<text::ChatMessage> asking(const Replaced& replaced, std::size_t end) const;
  std::size_t head_bytes() const;  // of text
  // The end of the longest run of turns from `begin` on, at least one, whose text fits in; and the
  // first turn, at least the running one, from which on all of it does.
  std::size_t end_within(std::size_t begin, std::size_t text_bytes) const;
  std::size_t begin_within(std::size_t text_bytes) const;
  // Where the first message of `turn` stands in shortened(replaced, replaced.end) and in asking().
  std::size_t shortened_begin(const Replaced& replaced, std::size_t turn) const;

 private:
  std::vector<text::ChatMessage> begin_with(const Replaced& replaced) const;
  std::size_t turn_bytes(std::size_t turn) const;
  std::size_t head_size() const { return turn_begin_.empty() ? 0 : turn_begin_.front(); }

  std::vector<text::ChatMessage> messages_;
  std::vector<std::size_t> turn_begin_;
  std::vector<Hash128> keys_;  // [turn_count()]
};

}  // namespace refrain::serve
