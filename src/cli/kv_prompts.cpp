// Prompts from lines. Any thread.
#include "cli/kv_prompts.h"

#include <nlohmann/json.hpp>

#include "base/str.h"

namespace refrain::cli {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostPrompts = 10'000;

Error bad(std::string message, std::string hint) {
  return Error{Code::kInvalidArgument, std::move(message), std::move(hint), "--prompts"};
}

TokenList tokens_of(std::string_view text, const LoadedModel& loaded) {
  return loaded.tokenizer->encode(text, {.add_bos = loaded.tokenizer->vocabulary().add_bos});
}

Result<TokenList> chat_of(const Json& list, const LoadedModel& loaded) {
  if (!loaded.chat_template.has_value()) {
    return bad("the model has no chat template", "give \"prompt\" instead of \"messages\"");
  }
  std::vector<text::ChatMessage> messages;
  for (const Json& message : list) {
    if (!message.is_object() || !message.contains("role") || !message.contains("content") ||
        !message["role"].is_string() || !message["content"].is_string()) {
      return bad("a message without \"role\" and \"content\"", "both are texts");
    }
    messages.push_back({.role = message["role"].get<std::string>(),
                        .content = message["content"].get<std::string>()});
  }
  ASSIGN_OR_RETURN(const text::Prompt prompt,
                   loaded.chat_template->render({.messages = std::move(messages)}));
  return loaded.tokenizer->encode_prompt(prompt).tokens;
}

Result<TokenList> prompt_of(std::string_view line, const LoadedModel& loaded) {
  if (!line.starts_with('{')) return tokens_of(line, loaded);
  const Json json = Json::parse(line, nullptr, false);
  if (json.is_discarded()) return bad("not a JSON object", "one object a line, or plain text");
  if (json.contains("prompt") && json["prompt"].is_string()) {
    return tokens_of(json["prompt"].get<std::string>(), loaded);
  }
  if (json.contains("messages") && json["messages"].is_array()) {
    return chat_of(json["messages"], loaded);
  }
  return bad("neither \"prompt\" nor \"messages\"", "\"prompt\" is a text, \"messages\" a list");
}

}  // namespace

Result<std::vector<TokenList>> read_kv_prompts(std::string_view text, const LoadedModel& loaded) {
  std::vector<TokenList> prompts;
  std::size_t number = 0;
  for (const std::string_view whole : split(text, '\n')) {
    ++number;
    const std::string_view line = trim(whole);
    if (line.empty()) continue;
    Result<TokenList> tokens = prompt_of(line, loaded);
    if (tokens.ok() && tokens->empty()) tokens = bad("an empty prompt", "write something");
    if (!tokens.ok()) {
      Error error = tokens.error();
      error.message = str_cat("line ", number, " of the prompts: ", error.message);
      error.field = "--prompts";
      return error;
    }
    prompts.push_back(std::move(*tokens));
    if (prompts.size() > kMostPrompts) {
      return bad(str_cat("more than ", kMostPrompts, " prompts"), "give a sample of them");
    }
  }
  if (prompts.empty()) return bad("the file has no prompts", "one a line");
  return prompts;
}

}  // namespace refrain::cli
