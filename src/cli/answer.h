// One answer generated in this process, without HTTP: builds the request from settings and
// messages, submits it and follows its events. Main thread; events arrive from the engine thread
// through a bounded channel, and interrupt() may come from the signal thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/console.h"
#include "cli/runtime.h"
#include "cli/settings.h"
#include "engine/request.h"
#include "serve/summaries.h"
#include "text/chat_template.h"

namespace refrain::cli {

struct Answer {
  std::string text;
  engine::FinishReason finish_reason = engine::FinishReason::kStop;
  engine::Usage usage;
  engine::Timings timings;
  bool interrupted = false;
  std::optional<serve::SummaryReport> summary = {};  // with --context-policy summary
};

class Answerer {
 public:
  // All three outlive the answerer.
  Answerer(EngineHost& host, const Settings& settings, Console& console);
  ~Answerer();

  // `on_text` gets the pieces as they come; false stops the answer (stdout closed).
  using OnText = std::function<bool(std::string_view)>;
  // kUnsupported without a chat template; errors of template and engine.
  Result<Answer> chat(std::vector<text::ChatMessage> messages, const OnText& on_text);
  // The text itself is continued.
  Result<Answer> complete(std::string_view prompt, const OnText& on_text);

  // Stops the running answer; true if there was one. Any thread.
  bool interrupt();

 private:
  class Queue;
  struct Session;  // what --context-policy summary needs
  engine::GenerateRequest make_request(text::EncodedPrompt prompt) const;
  Result<Answer> follow(engine::GenerateRequest request, const OnText& on_text);
  Result<serve::Shortened> shorten(text::RenderInput input);

  EngineHost& host_;
  const Settings& settings_;
  Console& console_;
  const serve::ChatEncoder encoder_;
  std::mutex mutex_;  // guards what interrupt() reads
  std::shared_ptr<Queue> running_;
  RequestId running_id_{};
  std::unique_ptr<Session> session_;  // none: prompts are whole
};

std::string_view finish_name(engine::FinishReason reason);
// "31 prompt tokens (16 cached), 12 generated, first token after 80 ms, 25.1 tokens/s"; also tokens
// moved and repaired, and why found text was not moved, if there is such
std::string describe_answer(const Answer& answer);

}  // namespace refrain::cli
