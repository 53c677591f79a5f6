// See completion_reply.h.
#include "serve/completion_reply.h"

#include <utility>

namespace refrain::serve {

using engine::TokenEvent;

CompletionReply::CompletionReply(CompletionReplyOptions options)
    : options_(std::move(options)),
      frame_(options_.frame, "text_completion", "text_completion"),
      choices_(static_cast<std::size_t>(options_.choice_count) * options_.prompt_count) {}

const std::string& CompletionReply::echo_of(std::uint32_t index) const {
  static const std::string kNothing;
  const std::uint32_t prompt = index / options_.choice_count;
  return prompt < options_.echo_texts.size() ? options_.echo_texts[prompt] : kNothing;
}

std::string CompletionReply::take(std::uint32_t prompt, TokenEvent event) {
  if (event.kind == TokenEvent::Kind::kFinished) {
    frame_.add(event);
    take_prompt_logprobs(prompt, event);
    return {};
  }
  if (event.kind == TokenEvent::Kind::kPromptProgress) return frame_.progress(event);
  if (event.kind == TokenEvent::Kind::kError) return {};
  const std::uint32_t index = prompt * options_.choice_count + event.choice;
  if (event.choice >= options_.choice_count || index >= choices_.size()) return {};
  if (options_.top_logprobs >= 0)
    std::move(event.logprobs.begin(), event.logprobs.end(),
              std::back_inserter(choices_[index].logprobs));
  std::string out = add_text(index, std::move(event.text));
  if (event.kind == TokenEvent::Kind::kChoiceFinished) out += end_choice(index, event);
  return out;
}

// The prompt's own tokens stand in front of those of each of its choices.
void CompletionReply::take_prompt_logprobs(std::uint32_t prompt, const TokenEvent& event) {
  if (event.prompt_logprobs.empty() || options_.top_logprobs < 0 || options_.echo_texts.empty())
    return;
  for (std::uint32_t i = 0; i < options_.choice_count; ++i) {
    auto& own = choices_[prompt * options_.choice_count + i].logprobs;
    own.insert(own.begin(), event.prompt_logprobs.begin(), event.prompt_logprobs.end());
  }
}

std::string CompletionReply::add_text(std::uint32_t index, std::string text) {
  Choice& choice = choices_[index];
  if (!choice.echoed) {
    choice.echoed = true;
    text.insert(0, echo_of(index));
  }
  if (!frame_.stream()) {
    choice.text += text;
    return {};
  }
  // Tokens whose text is still held back travel with the next piece.
  return text.empty() ? std::string() : text_chunk(index, text);
}

std::string CompletionReply::end_choice(std::uint32_t index, TokenEvent& event) {
  Choice& choice = choices_[index];
  if (choice.finished) return {};
  choice.finished = true;
  choice.reason = event.finish_reason;
  choice.stop_matched = std::move(event.stop_matched);
  if (!frame_.stream()) return {};
  std::string out;
  if (last_finished_.has_value()) out = finish_chunk(*last_finished_, false);
  last_finished_ = index;
  return out;
}

void CompletionReply::write_logprobs(JsonWriter& out, Choice& choice) const {
  out.key("logprobs");
  if (options_.top_logprobs < 0) {
    out.null();
  } else {
    write_completion_logprobs(out, choice.logprobs, options_.top_logprobs, &choice.text_offset);
    choice.logprobs.clear();
  }
}

std::string CompletionReply::text_chunk(std::uint32_t index, const std::string& text) {
  JsonWriter out;
  frame_.begin(out);
  out.begin_object().field("index", index).field("text", text);
  write_logprobs(out, choices_[index]);
  out.key("finish_reason").null().end_object();
  return frame_.end_chunk(out);
}

std::string CompletionReply::finish_chunk(std::uint32_t index, bool last) {
  Choice& choice = choices_[index];
  JsonWriter out;
  frame_.begin(out);
  out.begin_object().field("index", index).field("text", "");
  if (choice.logprobs.empty()) {
    out.key("logprobs").null();
  } else {
    write_logprobs(out, choice);
  }
  write_finish(out, finish_reason_text(choice.reason), choice.stop_matched);
  out.end_object();
  return frame_.end_chunk(out, last);
}

std::string CompletionReply::whole() {
  JsonWriter out;
  frame_.begin(out);
  for (std::uint32_t index = 0; index < choices_.size(); ++index) {
    Choice& choice = choices_[index];
    out.begin_object().field("index", index).field("text", choice.text);
    write_logprobs(out, choice);
    write_finish(out, finish_reason_text(choice.reason), choice.stop_matched);
    out.end_object();
  }
  return frame_.end_whole(out);
}

std::string CompletionReply::finish() {
  std::string out;
  for (std::uint32_t index = 0; index < choices_.size(); ++index) {
    out += add_text(index, "");  // echo of a choice that nothing was generated for
    if (choices_[index].finished) continue;
    TokenEvent event;
    event.finish_reason = engine::FinishReason::kLength;
    out += end_choice(index, event);
  }
  if (!frame_.stream()) return whole();
  if (last_finished_.has_value()) out += finish_chunk(*last_finished_, true);
  return out + frame_.end_of_stream();
}

}  // namespace refrain::serve
