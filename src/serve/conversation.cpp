// See conversation.h.
#include "serve/conversation.h"

#include <span>

#include "base/str.h"

namespace refrain::serve {
namespace {

// Lengths in front, so that no text can pass for the boundary between two.
void add_text(std::string& bytes, std::string_view text) {
  bytes += str_cat(text.size(), ":");
  bytes += text;
}

Hash128 chain(const Hash128& previous, const text::ChatMessage& message) {
  std::string bytes;
  for (const std::string* text : {&message.role, &message.content, &message.tool_call_id,
                                  &message.name, &message.reasoning_content})
    add_text(bytes, *text);
  for (const text::ToolCall& call : message.tool_calls)
    for (const std::string* text : {&call.id, &call.name, &call.arguments_json})
      add_text(bytes, *text);
  return hash_chain(previous, std::as_bytes(std::span(bytes)));
}

text::ChatMessage summary_request() {
  text::ChatMessage message;
  message.role = "user";
  message.content = kSummaryRequest;
  return message;
}

}  // namespace

Conversation::Conversation(std::vector<text::ChatMessage> messages, const Hash128& seed)
    : messages_(std::move(messages)) {
  Hash128 key = seed;
  bool behind_user = false;
  for (std::size_t i = 0; i < messages_.size(); ++i) {
    const bool is_user = messages_[i].role == "user";
    // Several messages of a user in a row are one turn.
    if (is_user && !behind_user) {
      turn_begin_.push_back(i);
      keys_.push_back(key);
    }
    behind_user = is_user;
    key = chain(key, messages_[i]);
  }
}

std::vector<text::ChatMessage> Conversation::begin_with(const Replaced& replaced) const {
  std::vector<text::ChatMessage> messages(
      messages_.begin(), messages_.begin() + static_cast<std::ptrdiff_t>(head_size()));
  if (replaced.end == 0) return messages;
  messages.push_back(summary_request());
  text::ChatMessage& summary = messages.emplace_back();
  summary.role = "assistant";
  summary.content = replaced.text;
  return messages;
}

std::vector<text::ChatMessage> Conversation::shortened(const Replaced& replaced,
                                                       std::size_t first_kept) const {
  std::vector<text::ChatMessage> messages = begin_with(replaced);
  const std::size_t from = turn_begin_.empty() ? 0 : turn_begin_[first_kept];
  messages.insert(messages.end(), messages_.begin() + static_cast<std::ptrdiff_t>(from),
                  messages_.end());
  return messages;
}

std::vector<text::ChatMessage> Conversation::asking(const Replaced& replaced,
                                                    std::size_t end) const {
  std::vector<text::ChatMessage> messages = begin_with(replaced);
  messages.insert(messages.end(),
                  messages_.begin() + static_cast<std::ptrdiff_t>(turn_begin_[replaced.end]),
                  messages_.begin() + static_cast<std::ptrdiff_t>(turn_begin_[end]));
  messages.push_back(summary_request());
  return messages;
}

std::size_t Conversation::head_bytes() const {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < head_size(); ++i) bytes += messages_[i].content.size();
  return bytes;
}

std::size_t Conversation::turn_bytes(std::size_t turn) const {
  const std::size_t end = turn + 1 < turn_count() ? turn_begin_[turn + 1] : messages_.size();
  std::size_t bytes = 0;
  for (std::size_t i = turn_begin_[turn]; i < end; ++i) bytes += messages_[i].content.size();
  return bytes;
}

std::size_t Conversation::end_within(std::size_t begin, std::size_t text_bytes) const {
  std::size_t end = begin + 1;
  std::size_t bytes = turn_bytes(begin);
  while (end < turn_count() && bytes + turn_bytes(end) <= text_bytes) bytes += turn_bytes(end++);
  return end;
}

std::size_t Conversation::begin_within(std::size_t text_bytes) const {
  std::size_t begin = turn_count() - 1;
  std::size_t bytes = turn_bytes(begin);
  while (begin > 0 && bytes + turn_bytes(begin - 1) <= text_bytes) bytes += turn_bytes(--begin);
  return begin;
}

std::size_t Conversation::shortened_begin(const Replaced& replaced, std::size_t turn) const {
  const std::size_t in_front = head_size() + (replaced.end == 0 ? 0 : 2);
  return in_front + turn_begin_[turn] - turn_begin_[replaced.end];
}

}  // namespace refrain::serve
