// See answer_frame.h.
#include "serve/answer_frame.h"

#include "serve/sse.h"

namespace refrain::serve {

void AnswerFrame::begin(JsonWriter& out) const {
  const AnswerIdentity& identity = options_.identity;
  out.begin_object().field("id", identity.id).field("object", object_);
  out.field("created", identity.created_s).field("model", identity.model);
  out.field("system_fingerprint", identity.fingerprint).key("choices").begin_array();
}

void AnswerFrame::write_totals(JsonWriter& out) const {
  write_usage(out.key("usage"), totals_.usage(), options_.notes);
  write_timings(out.key("timings"), totals_.timings(), totals_.timed_usage());
}

std::string AnswerFrame::end_chunk(JsonWriter& out, bool with_timings) const {
  out.end_array();
  if (options_.include_usage) out.key("usage").null();
  if (with_timings) write_timings(out.key("timings"), totals_.timings(), totals_.timed_usage());
  out.end_object();
  return sse_event(out.text());
}

std::string AnswerFrame::end_whole(JsonWriter& out) const {
  out.end_array();
  write_totals(out);
  out.end_object();
  return out.take();
}

std::string AnswerFrame::progress(const engine::TokenEvent& event) const {
  if (!options_.stream || !options_.return_progress) return {};
  JsonWriter out;
  begin(out);
  out.end_array().key("prompt_progress").begin_object().field("total", event.progress_total);
  out.field("cache", found_tokens(event.usage)).field("processed", event.progress_done);
  out.end_object().end_object();
  return sse_event(out.text());
}

std::string AnswerFrame::end_of_stream() const {
  if (!options_.include_usage) return std::string(kSseDone);
  JsonWriter out;
  begin(out);
  out.end_array();
  write_totals(out);
  out.end_object();
  return sse_event(out.text()) + std::string(kSseDone);
}

}  // namespace refrain::serve
