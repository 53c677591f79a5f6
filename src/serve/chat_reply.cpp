// See chat_reply.h.
#include "serve/chat_reply.h"

namespace refrain::serve {

using engine::TokenEvent;

ChatReply::ChatReply(ChatReplyOptions options, IdSource& ids)
    : options_(std::move(options)),
      frame_(options_.frame, "chat.completion", "chat.completion.chunk"),
      ids_(ids) {
  choices_.resize(options_.choice_count);
  for (Choice& choice : choices_) choice.parser = ToolCallParser(options_.only_tool_calls);
}

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
  if (event.kind == TokenEvent::Kind::kFinished) frame_.add(event);
  if (event.kind == TokenEvent::Kind::kPromptProgress) return frame_.progress(event);
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
    if (frame_.stream()) out += piece_chunk(index, piece);
  }
  return out;
}

void ChatReply::collect(Choice& choice, const AnswerPiece& piece) {
  switch (piece.kind) {
    case AnswerPiece::Kind::kContent:
      if (!frame_.stream()) choice.content += piece.text;
      break;
    case AnswerPiece::Kind::kCallBegin:
      choice.calls.push_back({ids_.next("call_"), piece.text, ""});
      break;
    case AnswerPiece::Kind::kCallArguments:
      if (!frame_.stream()) choice.calls[piece.call].arguments += piece.text;
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
  if (!frame_.stream()) return out;
  // The call's last finish chunk waits for kFinished, so that it can carry the timings.
  if (last_finished_.has_value()) out += finish_chunk(*last_finished_, false);
  last_finished_ = index;
  return out;
}

std::string_view ChatReply::reason_of(const Choice& choice) const {
  if (choice.reason == engine::FinishReason::kStop && !choice.calls.empty()) return "tool_calls";
  return finish_reason_text(choice.reason);
}

void ChatReply::write_logprobs(JsonWriter& out, std::span<const engine::TokenLogprob> items) const {
  out.key("logprobs");
  if (options_.logprobs) {
    write_chat_logprobs(out, items);
  } else {
    out.null();
  }
}

std::string ChatReply::piece_chunk(std::uint32_t index, const AnswerPiece& piece) {
  Choice& choice = choices_[index];
  JsonWriter out;
  frame_.begin(out);
  out.begin_object().field("index", index);
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
  out.end_object();
  write_logprobs(out, std::exchange(choice.logprobs, {}));
  out.key("finish_reason").null().end_object();
  return frame_.end_chunk(out);
}

std::string ChatReply::finish_chunk(std::uint32_t index, bool last) {
  Choice& choice = choices_[index];
  JsonWriter out;
  frame_.begin(out);
  out.begin_object().field("index", index);
  out.key("delta").begin_object();
  if (!choice.role_sent) out.field("role", "assistant").field("content", "");
  choice.role_sent = true;
  out.end_object();
  if (choice.logprobs.empty()) {
    out.key("logprobs").null();
  } else {
    write_logprobs(out, std::exchange(choice.logprobs, {}));
  }
  write_finish(out, reason_of(choice), choice.stop_matched);
  out.end_object();
  return frame_.end_chunk(out, last);
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
  frame_.begin(out);
  for (std::size_t index = 0; index < choices_.size(); ++index) {
    const Choice& choice = choices_[index];
    out.begin_object().field("index", index).key("message");
    write_message(out, choice);
    write_logprobs(out, choice.logprobs);
    write_finish(out, reason_of(choice), choice.stop_matched);
    out.end_object();
  }
  return frame_.end_whole(out);
}

std::string ChatReply::finish() {
  std::string out;
  for (std::uint32_t index = 0; index < choices_.size(); ++index) {
    if (choices_[index].finished) continue;  // a choice that nothing was generated for
    TokenEvent event;
    event.finish_reason = engine::FinishReason::kLength;
    out += end_choice(index, event);
  }
  if (!frame_.stream()) return whole();
  if (last_finished_.has_value()) out += finish_chunk(*last_finished_, true);
  return out + frame_.end_of_stream();
}

}  // namespace refrain::serve
