// See chat_reply.h.
#include "serve/chat_reply.h"

#include "serve/json_writer.h"
#include "serve/sse.h"

namespace refrain::serve {

using engine::TokenEvent;

ChatReply::ChatReply(ChatReplyOptions options, IdSource& ids)
    : options_(std::move(options)), ids_(ids), choices_(options_.choice_count) {}

std::string ChatReply::take(std::uint32_t /*prompt*/, TokenEvent event) {
  const bool of_choice =
      event.kind == TokenEvent::Kind::kText || event.kind == TokenEvent::Kind::kChoiceFinished;
  if (of_choice && event.choice < choices_.size()) {
    Choice& choice = choices_[event.choice];
    if (options_.logprobs)
      std::move(event.logprobs.begin(), event.logprobs.end(), std::back_inserter(choice.logprobs));
    std::string out = add_text(event.choice, event.text);
    if (event.kind == TokenEvent::Kind::kChoiceFinished) out += end_choice(event.choice, event);
    return out;
  }
  if (event.kind == TokenEvent::Kind::kFinished) totals_.add(event);
  if (event.kind == TokenEvent::Kind::kPromptProgress && options_.stream &&
      options_.return_progress)
    return progress_chunk(event);
  return {};
}

std::string ChatReply::add_text(std::uint32_t index, std::string_view text) {
  if (text.empty()) return {};
  if (options_.parse_tool_calls) return add_pieces(index, choices_[index].parser.push(text));
  return add_pieces(index, {AnswerPiece{AnswerPiece::Kind::kContent, std::string(text), 0}});
}

std::string ChatReply::add_pieces(std::uint32_t index, const std::vector<AnswerPiece>& pieces) {
  std::string out;
  for (const AnswerPiece& piece : pieces) {
    collect(choices_[index], piece);
    if (options_.stream) out += piece_chunk(index, piece);
  }
  return out;
}

void ChatReply::collect(Choice& choice, const AnswerPiece& piece) {
  switch (piece.kind) {
    case AnswerPiece::Kind::kContent:
      if (!options_.stream) choice.content += piece.text;
      break;
    case AnswerPiece::Kind::kCallBegin:
      choice.calls.push_back({ids_.next("call_"), piece.text, ""});
      break;
    case AnswerPiece::Kind::kCallArguments:
      if (!options_.stream) choice.calls[piece.call].arguments += piece.text;
      break;
  }
}

std::string ChatReply::end_choice(std::uint32_t index, TokenEvent& event) {
  Choice& choice = choices_[index];
  if (choice.finished) return {};
  std::string out;
  if (options_.parse_tool_calls) out = add_pieces(index, choice.parser.finish());
  choice.finished = true;
  choice.reason = event.finish_reason;
  choice.stop_matched = std::move(event.stop_matched);
  if (!options_.stream) return out;
  // The call's last finish chunk waits for kFinished, so that it can carry the timings.
  if (last_finished_.has_value()) out += finish_chunk(*last_finished_, false);
  last_finished_ = index;
  return out;
}

std::string_view ChatReply::reason_of(const Choice& choice) const {
  if (choice.reason == engine::FinishReason::kStop && !choice.calls.empty()) return "tool_calls";
  return finish_reason_text(choice.reason);
}

void ChatReply::write_head(JsonWriter& out, std::string_view object) const {
  const AnswerIdentity& identity = options_.identity;
  out.begin_object().field("id", identity.id).field("object", object);
  out.field("created", identity.created_s).field("model", identity.model);
  out.field("system_fingerprint", identity.fingerprint);
}

void ChatReply::begin_chunk(JsonWriter& out) const {
  write_head(out, "chat.completion.chunk");
}

std::string ChatReply::piece_chunk(std::uint32_t index, const AnswerPiece& piece) {
  Choice& choice = choices_[index];
  JsonWriter out;
  begin_chunk(out);
  out.key("choices").begin_array().begin_object().field("index", index);
  out.key("delta").begin_object();
  if (!choice.role_sent) {
    out.field("role", "assistant");
    if (piece.kind != AnswerPiece::Kind::kContent) out.key("content").null();
    choice.role_sent = true;
  }
  if (piece.kind == AnswerPiece::Kind::kContent) {
    out.field("content", piece.text);
  } else {
    const bool begins = piece.kind == AnswerPiece::Kind::kCallBegin;
    out.key("tool_calls").begin_array().begin_object().field("index", piece.call);
    if (begins) out.field("id", choice.calls[piece.call].id).field("type", "function");
    out.key("function").begin_object();
    if (begins) out.field("name", piece.text);
    out.field("arguments", begins ? std::string() : piece.text);
    out.end_object().end_object().end_array();
  }
  out.end_object().key("logprobs");
  if (options_.logprobs) {
    write_chat_logprobs(out, std::exchange(choice.logprobs, {}));
  } else {
    out.null();
  }
  out.key("finish_reason").null().end_object().end_array();
  if (options_.include_usage) out.key("usage").null();
  out.end_object();
  return sse_event(out.text());
}

std::string ChatReply::finish_chunk(std::uint32_t index, bool last) {
  Choice& choice = choices_[index];
  JsonWriter out;
  begin_chunk(out);
  out.key("choices").begin_array().begin_object().field("index", index);
  out.key("delta").begin_object();
  if (!choice.role_sent) out.field("role", "assistant").field("content", "");
  choice.role_sent = true;
  out.end_object().key("logprobs");
  if (options_.logprobs && !choice.logprobs.empty()) {
    write_chat_logprobs(out, std::exchange(choice.logprobs, {}));
  } else {
    out.null();
  }
  out.field("finish_reason", reason_of(choice));
  if (!choice.stop_matched.empty()) out.field("stop_reason", choice.stop_matched);
  out.end_object().end_array();
  if (options_.include_usage) out.key("usage").null();
  if (last) write_timings(out.key("timings"), totals_.timings(), totals_.usage());
  out.end_object();
  return sse_event(out.text());
}

std::string ChatReply::progress_chunk(const TokenEvent& event) const {
  JsonWriter out;
  begin_chunk(out);
  out.key("choices").begin_array().end_array();
  out.key("prompt_progress").begin_object().field("total", event.progress_total);
  out.field("cache", event.usage.cached_tokens).field("processed", event.progress_done);
  out.end_object().end_object();
  return sse_event(out.text());
}

std::string ChatReply::usage_chunk() const {
  JsonWriter out;
  begin_chunk(out);
  out.key("choices").begin_array().end_array();
  write_usage(out.key("usage"), totals_.usage());
  write_timings(out.key("timings"), totals_.timings(), totals_.usage());
  out.end_object();
  return sse_event(out.text());
}

void ChatReply::write_message(JsonWriter& out, const Choice& choice) const {
  out.begin_object().field("role", "assistant").key("content");
  if (choice.content.empty() && !choice.calls.empty()) {
    out.null();
  } else {
    out.value(choice.content);
  }
  if (!choice.calls.empty()) {
    out.key("tool_calls").begin_array();
    for (const Call& call : choice.calls) {
      out.begin_object().field("id", call.id).field("type", "function");
      out.key("function").begin_object().field("name", call.name);
      out.field("arguments", call.arguments).end_object().end_object();
    }
    out.end_array();
  }
  out.end_object();
}

std::string ChatReply::whole() const {
  JsonWriter out;
  write_head(out, "chat.completion");
  out.key("choices").begin_array();
  for (std::size_t index = 0; index < choices_.size(); ++index) {
    const Choice& choice = choices_[index];
    out.begin_object().field("index", index).key("message");
    write_message(out, choice);
    out.key("logprobs");
    if (options_.logprobs) {
      write_chat_logprobs(out, choice.logprobs);
    } else {
      out.null();
    }
    out.field("finish_reason", reason_of(choice));
    if (!choice.stop_matched.empty()) out.field("stop_reason", choice.stop_matched);
    out.end_object();
  }
  out.end_array();
  write_usage(out.key("usage"), totals_.usage());
  write_timings(out.key("timings"), totals_.timings(), totals_.usage());
  out.end_object();
  return out.take();
}

std::string ChatReply::finish() {
  std::string out;
  for (std::uint32_t index = 0; index < choices_.size(); ++index) {
    if (choices_[index].finished) continue;  // a choice that nothing was generated for
    TokenEvent event;
    event.finish_reason = engine::FinishReason::kLength;
    out += end_choice(index, event);
  }
  if (!options_.stream) return whole();
  if (last_finished_.has_value()) out += finish_chunk(*last_finished_, true);
  if (options_.include_usage) out += usage_chunk();
  out += kSseDone;
  return out;
}

}  // namespace refrain::serve
