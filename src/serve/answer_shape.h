// JSON of the parts that chat and completion answers share: usage, timings, logprobs, finish
// reasons. Plain functions that write into a JsonWriter; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request.h"
#include "serve/json_writer.h"
#include "serve/summary_report.h"

namespace refrain::serve {

// {"prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details":
// {"cached_tokens"},
//  "refrain": {"provenance": {"exact", "moved", "repaired", "computed"}, "miss_reason",
//  "divergence_estimate" and "reuse_refusal" if there is one, "normalized" if true, "summary" of a
//  conversation that may be shortened}}
// cached_tokens are those that were not computed; only a request that asked for approximate reuse
// has moved ones among them.
struct PromptNotes {
  bool normalized = false;                    // a user's message was rewritten
  std::optional<SummaryReport> summary = {};  // none: no rule was on
};
void write_usage(JsonWriter& out, const engine::Usage& usage, const PromptNotes& notes = {});
// {"queue_ms", "prefill_ms", "ttft_ms", "decode_ms", "tpot_ms", "prompt_tokens_computed",
//  "tokens_per_second"}
void write_timings(JsonWriter& out, const engine::Timings& timings, const engine::Usage& usage);

// "stop" | "length" | "error"; deadline and cancellation cut the text, as "length" does.
std::string_view finish_reason_text(engine::FinishReason reason);
// The end of a choice: finish_reason, stop_reason if there is one.
void write_finish(JsonWriter& out, std::string_view reason, const std::string& stop_matched);
std::string_view miss_reason_text(kv::MissReason reason);

// Chat form: {"content": [{"token", "logprob", "bytes", "top_logprobs": [...]}]}
void write_chat_logprobs(JsonWriter& out, std::span<const engine::TokenLogprob> items);

// Completion form: {"tokens", "token_logprobs", "top_logprobs", "text_offset"}. `text_offset`
// counts characters from the beginning of the answer's text; it is carried over from piece to
// piece. `top_count` 0 gives top_logprobs null.
void write_completion_logprobs(JsonWriter& out, std::span<const engine::TokenLogprob> items,
                               std::int32_t top_count, std::size_t* text_offset);

// Prompt tokens whose K/V were found, and those whose K/V were computed.
std::uint32_t found_tokens(const engine::Usage& usage);
std::uint32_t computed_tokens(const engine::Usage& usage);

// Sums the usage of several engine requests behind one call; timings are those of the first that
// finished, the divergence is the largest, the refusal the first.
class CallTotals {
 public:
  void add(const engine::TokenEvent& finished);
  const engine::Usage& usage() const { return usage_; }
  const engine::Timings& timings() const { return timings_; }
  const engine::Usage& timed_usage() const { return timed_usage_; }  // what took that time

 private:
  engine::Usage usage_;
  engine::Timings timings_;
  engine::Usage timed_usage_;
  bool any_ = false;
};

}  // namespace refrain::serve
