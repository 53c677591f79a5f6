// ChatReply: answers of POST /v1/chat/completions: chat.completion, or chat.completion.chunk
// events. One per call, on the connection's strand.
//
//   stream of a choice:  {role, content} {content}* | {tool_calls begin} {tool_calls arguments}*
//                        {finish_reason}            then [usage] [DONE] for the call
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/answer_frame.h"
#include "serve/id_source.h"
#include "serve/reply.h"
#include "serve/tool_calls.h"

namespace refrain::serve {

struct ChatReplyOptions {
  FrameOptions frame;
  bool logprobs = false;
  bool parse_tool_calls = false;
  bool only_tool_calls = false;  // a grammar forces them: there is no content
  std::uint32_t choice_count = 1;
};

class ChatReply final : public Reply {
 public:
  ChatReply(ChatReplyOptions options, IdSource& ids);
  std::string take(std::uint32_t prompt, engine::TokenEvent event) override;
  std::string finish() override;

 private:
  struct Call {
    std::string id;
    std::string name;
    std::string arguments;
  };
  struct Choice {
    ToolCallParser parser;
    bool role_sent = false;
    std::string content;  // whole answer only
    std::vector<Call> calls;
    std::vector<engine::TokenLogprob> logprobs;  // all, or those not sent yet
    bool finished = false;
    engine::FinishReason reason = engine::FinishReason::kLength;
    std::string stop_matched;
  };

  std::string add_text(std::uint32_t index, std::string_view text);
  std::string add_pieces(std::uint32_t index, const std::vector<AnswerPiece>& pieces);
  void collect(Choice& choice, const AnswerPiece& piece);
  std::string end_choice(std::uint32_t index, engine::TokenEvent& event);
  std::string piece_chunk(std::uint32_t index, const AnswerPiece& piece);
  std::string finish_chunk(std::uint32_t index, bool last);
  std::string whole() const;
  void write_message(JsonWriter& out, const Choice& choice) const;
  std::string_view reason_of(const Choice& choice) const;
  void write_logprobs(JsonWriter& out, std::span<const engine::TokenLogprob> items) const;

  const ChatReplyOptions options_;
  AnswerFrame frame_;
  IdSource& ids_;
  std::vector<Choice> choices_;
  std::optional<std::uint32_t> last_finished_;  // its finish chunk waits for the timings
};

}  // namespace refrain::serve
