// Conversations for tests.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "text/chat_template.h"

namespace refrain::test {

using text::ChatMessage;

inline std::vector<ChatMessage> chat(
    const std::vector<std::pair<std::string, std::string>>& messages) {
  std::vector<ChatMessage> list;
  for (const auto& [role, content] : messages) {
    list.emplace_back().role = role;
    list.back().content = content;
  }
  return list;
}

inline std::string words(std::size_t bytes, char letter) {
  return std::string(bytes, letter);
}

// Turns of a user and an assistant, 200 bytes each, and the running one.
inline std::vector<ChatMessage> turns(std::size_t done) {
  auto list = chat({{"system", "Be brief."}});
  for (std::size_t i = 0; i < done; ++i) {
    const char letter = static_cast<char>('a' + i);
    for (const ChatMessage& message :
         chat({{"user", words(100, letter)}, {"assistant", words(100, letter)}}))
      list.push_back(message);
  }
  list.emplace_back().role = "user";
  list.back().content = "And now?";
  return list;
}

}  // namespace refrain::test
