// Summaries: conversations that have grown past their budget go on with head, summary and recent
// turns (REQUIREMENTS B4, B6; ../../docs/concepts/summaries.md). A prompt is shortened by what was
// concluded before it came; what it lacks is concluded beside its answer, for the next turn, so no
// answer waits for a summary.
//
//   turn 9    1,100 tokens, budget 1,000    answered as it is; turns 0-6 are summarised meanwhile
//   turn 10   head, summary, turns 7-10     its beginning was computed behind the summary already
//
// Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "metrics/registry.h"
#include "serve/chat_encoder.h"
#include "serve/summarizer.h"
#include "serve/summary_book.h"
#include "serve/summary_job.h"
#include "serve/summary_report.h"

namespace refrain::serve {

struct Shortened {
  text::EncodedPrompt prompt;
  SummaryReport report;
  std::optional<SummaryTask> task = {};  // to be begun once the answer has
};

class Summaries {
 public:
  static constexpr std::size_t kMaxBytes = 16U << 20U;  // of all summaries together

  // All outlive it.
  Summaries(const ChatEncoder& encoder, Submitter& engine, metrics::Registry& metrics,
            std::uint32_t max_context);

  // The prompt of a conversation under a rule that is on. `answer_tokens` are asked for behind it;
  // up to a quarter of the context is kept free for them. Errors as of ChatEncoder::encode.
  Result<Shortened> shorten(text::RenderInput input, const SummaryRule& rule, SummaryOwner owner,
                            std::uint32_t answer_tokens);
  void begin(SummaryTask task);
  void stop() { summarizer_.stop(); }

 private:
  const ChatEncoder& encoder_;
  const std::uint32_t max_context_;
  SummaryBook book_{kMaxBytes};
  Summarizer summarizer_;
};

}  // namespace refrain::serve
