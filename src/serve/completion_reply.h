// CompletionReply: answers of POST /v1/completions, whole or streamed. Choices are numbered through
// all prompts: index = prompt * n + choice. One per call, on the connection's strand.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "serve/answer_frame.h"
#include "serve/reply.h"

namespace refrain::serve {

struct CompletionReplyOptions {
  FrameOptions frame;
  std::int32_t top_logprobs = -1;  // -1 = no logprobs
  std::uint32_t choice_count = 1;  // per prompt
  std::uint32_t prompt_count = 1;
  std::vector<std::string> echo_texts = {};  // per prompt; empty = no echo
};

class CompletionReply final : public Reply {
 public:
  explicit CompletionReply(CompletionReplyOptions options);
  std::string take(std::uint32_t prompt, engine::TokenEvent event) override;
  std::string finish() override;

 private:
  struct Choice {
    std::string text;  // whole answer only
    bool echoed = false;
    std::vector<engine::TokenLogprob> logprobs;  // all, or those not sent yet
    std::size_t text_offset = 0;                 // characters of the logprob items sent so far
    bool finished = false;
    engine::FinishReason reason = engine::FinishReason::kLength;
    std::string stop_matched;
  };

  std::string add_text(std::uint32_t index, std::string text);
  std::string end_choice(std::uint32_t index, engine::TokenEvent& event);
  std::string text_chunk(std::uint32_t index, const std::string& text);
  std::string finish_chunk(std::uint32_t index, bool last);
  std::string whole();
  void write_logprobs(JsonWriter& out, Choice& choice) const;
  void take_prompt_logprobs(std::uint32_t prompt, const engine::TokenEvent& event);
  const std::string& echo_of(std::uint32_t index) const;

  const CompletionReplyOptions options_;
  AnswerFrame frame_;
  std::vector<Choice> choices_;
  std::optional<std::uint32_t> last_finished_;  // its finish chunk waits for the timings
};

}  // namespace refrain::serve
