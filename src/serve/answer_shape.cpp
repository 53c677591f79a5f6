// See answer_shape.h.
#include "serve/answer_shape.h"

#include <cmath>

#include "base/str.h"
#include "serve/reuse_words.h"

namespace refrain::serve {
namespace {

// A token's text as JSON can hold it in the chat form; `bytes` beside it is exact.
void write_chat_token(JsonWriter& out, const std::string& bytes, float logprob) {
  out.field("token", bytes).field("logprob", logprob).key("bytes").begin_array();
  for (const char byte : bytes) out.value(static_cast<unsigned char>(byte));
  out.end_array();
}

// The completion form has no `bytes`; a token that is part of a character is written out as the
// older OpenAI API does: "bytes:\xe2\x80".
std::string completion_token(const std::string& bytes) {
  if (is_valid_utf8(bytes)) return bytes;
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text = "bytes:";
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    text += "\\x";
    text += kHex[value >> 4U];
    text += kHex[value & 15U];
  }
  return text;
}

// Characters that begin in `bytes`: all bytes but the continuing ones of UTF-8.
std::size_t characters_begun(const std::string& bytes) {
  std::size_t count = 0;
  for (const char byte : bytes)
    if ((static_cast<unsigned char>(byte) & 0xC0U) != 0x80U) ++count;
  return count;
}

// Microseconds are as fine as these figures mean anything.
double rounded(double value) {
  return std::round(value * 1000) / 1000;
}

void write_summary(JsonWriter& out, const SummaryReport& report) {
  out.begin_object().field("section", report.section);
  out.field("replaced_turns", report.replaced_turns);
  out.field("replaced_tokens", report.replaced_tokens);
  out.field("summary_tokens", report.summary_tokens);
  out.field("left_out_turns", report.left_out_turns);
  out.field("next", next_summary_text(report.next));
  if (report.replaced_turns > 0) out.field("text", report.text);
  out.end_object();
}

}  // namespace

std::string_view miss_reason_text(kv::MissReason reason) {
  switch (reason) {
    case kv::MissReason::kNone:
      return "none";
    case kv::MissReason::kCold:
      return "cold";
    case kv::MissReason::kDiverged:
      return "diverged";
    case kv::MissReason::kEnded:
      return "ended";
    case kv::MissReason::kShort:
      return "short";
    case kv::MissReason::kDisabled:
      return "disabled";
  }
  return "none";
}

std::string_view finish_reason_text(engine::FinishReason reason) {
  switch (reason) {
    case engine::FinishReason::kStop:
      return "stop";
    case engine::FinishReason::kLength:
    case engine::FinishReason::kCancelled:
    case engine::FinishReason::kDeadline:
      return "length";
    case engine::FinishReason::kError:
      return "error";
  }
  return "stop";
}

std::uint32_t found_tokens(const engine::Usage& usage) {
  return usage.cached_tokens + usage.moved_tokens;
}

std::uint32_t computed_tokens(const engine::Usage& usage) {
  return usage.repaired_tokens + usage.computed_tokens;
}

void write_usage(JsonWriter& out, const engine::Usage& usage, const PromptNotes& notes) {
  out.begin_object();
  out.field("prompt_tokens", usage.prompt_tokens);
  out.field("completion_tokens", usage.completion_tokens);
  out.field("total_tokens", usage.prompt_tokens + usage.completion_tokens);
  out.key("prompt_tokens_details").begin_object();
  out.field("cached_tokens", found_tokens(usage)).end_object();
  out.key("refrain").begin_object().key("provenance").begin_object();
  out.field("exact", usage.cached_tokens).field("moved", usage.moved_tokens);
  out.field("repaired", usage.repaired_tokens).field("computed", usage.computed_tokens);
  out.end_object();
  out.field("miss_reason", miss_reason_text(usage.miss_reason));
  if (usage.divergence_estimate.has_value())
    out.field("divergence_estimate", *usage.divergence_estimate);
  if (usage.refusal != engine::ReuseRefusal::kNone)
    out.field("reuse_refusal", reuse_refusal_text(usage.refusal));
  if (usage.dropped_tokens > 0) out.field("dropped_tokens", usage.dropped_tokens);
  if (notes.normalized) out.field("normalized", true);
  if (notes.summary.has_value()) write_summary(out.key("summary"), *notes.summary);
  out.end_object();
  out.end_object();
}

void write_timings(JsonWriter& out, const engine::Timings& timings, const engine::Usage& usage) {
  out.begin_object();
  out.field("queue_ms", rounded(timings.queue_ms)).field("prefill_ms", rounded(timings.prefill_ms));
  out.field("ttft_ms", rounded(timings.ttft_ms)).field("decode_ms", rounded(timings.decode_ms));
  out.field("tpot_ms", rounded(timings.tpot_ms));
  out.field("prompt_tokens_computed", computed_tokens(usage));
  const double total_ms = timings.prefill_ms + timings.decode_ms;
  out.field("tokens_per_second",
            total_ms > 0 ? rounded(usage.completion_tokens * 1000.0 / total_ms) : 0.0);
  out.end_object();
}

void write_finish(JsonWriter& out, std::string_view reason, const std::string& stop_matched) {
  out.field("finish_reason", reason);
  if (!stop_matched.empty()) out.field("stop_reason", stop_matched);
}

void write_chat_logprobs(JsonWriter& out, std::span<const engine::TokenLogprob> items) {
  out.begin_object().key("content").begin_array();
  for (const engine::TokenLogprob& item : items) {
    out.begin_object();
    write_chat_token(out, item.bytes, item.logprob);
    out.key("top_logprobs").begin_array();
    for (const auto& other : item.top) {
      out.begin_object();
      write_chat_token(out, other.bytes, other.logprob);
      out.end_object();
    }
    out.end_array().end_object();
  }
  out.end_array().end_object();
}

void write_completion_logprobs(JsonWriter& out, std::span<const engine::TokenLogprob> items,
                               std::int32_t top_count, std::size_t* text_offset) {
  out.begin_object().key("tokens").begin_array();
  for (const auto& item : items) out.value(completion_token(item.bytes));
  out.end_array().key("token_logprobs").begin_array();
  for (const auto& item : items) out.value(item.logprob);
  out.end_array();
  if (top_count <= 0) {
    out.key("top_logprobs").null();
  } else {
    out.key("top_logprobs").begin_array();
    for (const auto& item : items) {
      if (std::isnan(item.logprob)) {  // first token of a prompt: nothing to predict it from
        out.null();
        continue;
      }
      out.begin_object();
      for (const auto& other : item.top) out.field(completion_token(other.bytes), other.logprob);
      out.end_object();
    }
    out.end_array();
  }
  out.key("text_offset").begin_array();
  for (const auto& item : items) {
    out.value(*text_offset);
    *text_offset += characters_begun(item.bytes);
  }
  out.end_array().end_object();
}

void CallTotals::add(const engine::TokenEvent& finished) {
  usage_.prompt_tokens += finished.usage.prompt_tokens;
  usage_.cached_tokens += finished.usage.cached_tokens;
  usage_.moved_tokens += finished.usage.moved_tokens;
  usage_.repaired_tokens += finished.usage.repaired_tokens;
  usage_.computed_tokens += finished.usage.computed_tokens;
  usage_.dropped_tokens += finished.usage.dropped_tokens;
  usage_.completion_tokens += finished.usage.completion_tokens;
  if (finished.usage.divergence_estimate > usage_.divergence_estimate)
    usage_.divergence_estimate = finished.usage.divergence_estimate;
  if (usage_.refusal == engine::ReuseRefusal::kNone) usage_.refusal = finished.usage.refusal;
  if (any_) return;
  any_ = true;
  usage_.miss_reason = finished.usage.miss_reason;
  timings_ = finished.timings;
  timed_usage_ = finished.usage;
}

}  // namespace refrain::serve
