// CompletionRequest: the body of POST /v1/completions, checked. Plain data; any thread.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "serve/generation_fields.h"
#include "serve/json.h"

namespace refrain::serve {

inline constexpr std::size_t kMaxPrompts = 2048;  // strings or token lists in one call

using PromptInput = std::variant<std::string, TokenList>;  // text, or tokens as they stand

struct CompletionRequest {
  GenerationFields generation;
  std::vector<PromptInput> prompts;  // at least one
  bool echo = false;
  bool parse_special = false;  // extension: control tokens written out in text prompts count
};

// A string, an array of strings, an array of token ids or an array of such arrays; used for
// `prompt` and for `input` of embeddings. Faults go to `read`.
std::vector<PromptInput> read_prompts(FieldReader& read, std::string_view name,
                                      std::size_t vocabulary_size);

Result<CompletionRequest> read_completion_request(const Json& body,
                                                  const GenerationDefaults& defaults,
                                                  std::size_t vocabulary_size);

}  // namespace refrain::serve
