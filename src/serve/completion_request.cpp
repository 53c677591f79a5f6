// See completion_request.h.
#include "serve/completion_request.h"

#include "base/str.h"

namespace refrain::serve {
namespace {

constexpr std::int64_t kMaxLogprobs = 20;

bool is_number(const Json& json) {
  std::int64_t ignored = 0;
  return whole_number(json, &ignored) || std::holds_alternative<double>(json.value);
}

void append_tokens(FieldReader& read, const Json& array, const std::string& path,
                   std::size_t vocabulary_size, std::vector<PromptInput>* prompts) {
  Result<TokenList> tokens = read_tokens(array, path, vocabulary_size);
  if (tokens.ok()) {
    prompts->emplace_back(std::move(*tokens));
  } else {
    read.fail(tokens.error());
  }
}

void refuse_unsupported(FieldReader& read, const CompletionRequest& request) {
  std::string suffix;
  if (read.text("suffix", &suffix) && !suffix.empty())
    read.fail("suffix", "is not supported: this server completes at the end of a prompt only", "",
              Code::kUnsupported);
  std::int64_t best_of = 0;
  if (read.integer("best_of", 1, std::numeric_limits<std::int32_t>::max(), &best_of) &&
      best_of != request.generation.choice_count)
    read.fail("best_of", "is not supported unless it equals `n`", "", Code::kUnsupported);
  if (request.echo && request.generation.stream && request.generation.sampling.top_logprobs >= 0)
    read.fail("logprobs", "cannot be combined with `echo` in a stream",
              "set `stream` to false to get the logprobs of the prompt", Code::kUnsupported);
}

}  // namespace

std::vector<PromptInput> read_prompts(FieldReader& read, std::string_view name,
                                      std::size_t vocabulary_size) {
  std::vector<PromptInput> prompts;
  const Json* member = read.any(name);
  if (member == nullptr) {
    read.fail(name, "is missing");
    return prompts;
  }
  if (const std::string* text = member->text()) return {*text};
  const JsonArray* items = member->array();
  if (items == nullptr || items->empty()) {
    read.fail(name, items == nullptr
                        ? str_cat("must be a string or an array, not ", member->kind_name())
                        : "must not be an empty array");
    return prompts;
  }
  if (is_number(items->front())) {
    append_tokens(read, *member, read.path_of(name), vocabulary_size, &prompts);
    return prompts;
  }
  if (items->size() > kMaxPrompts) {
    read.fail(name, str_cat("holds ", items->size(), " prompts; at most ", kMaxPrompts));
    return prompts;
  }
  for (std::size_t i = 0; i < items->size() && !read.failed(); ++i) {
    const Json& item = (*items)[i];
    if (const std::string* text = item.text()) {
      prompts.emplace_back(*text);
    } else {
      append_tokens(read, item, read.path_of(str_cat(name, "[", i, "]")), vocabulary_size,
                    &prompts);
    }
  }
  return prompts;
}

Result<CompletionRequest> read_completion_request(const Json& body,
                                                  const GenerationDefaults& defaults,
                                                  std::size_t vocabulary_size) {
  CompletionRequest request;
  FieldReader read(body, "");
  if (read.failed()) return read.error();
  request.prompts = read_prompts(read, "prompt", vocabulary_size);
  request.generation = read_generation_fields(read, defaults);
  // Where it is the server's default, it is for chats only.
  if (request.generation.summary.on && read.any("context") != nullptr)
    read.fail("context.policy", "`summary` needs messages", "use /v1/chat/completions");
  read.integer_into("logprobs", 0, kMaxLogprobs, &request.generation.sampling.top_logprobs);
  read.boolean("echo", &request.echo);
  read.boolean("parse_special", &request.parse_special);
  refuse_unsupported(read, request);
  if (read.failed()) return read.error();
  return request;
}

}  // namespace refrain::serve
