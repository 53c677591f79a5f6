// Api: what each POST endpoint does with a body up to the engine's door: read, check, render,
// tokenize. Holds no state of requests; immutable after construction apart from the id counter.
// prepare() may take long for big bodies and runs on worker threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "serve/answer_frame.h"
#include "serve/chat_request.h"
#include "serve/completion_request.h"
#include "serve/id_source.h"
#include "serve/key_ring.h"
#include "serve/prepared_call.h"
#include "serve/router.h"
#include "serve/server.h"

namespace refrain::serve {

class Api {
 public:
  Api(const ServerParts& parts, const ServerOptions& options);

  Result<Prepared> prepare(const Route& route, const HttpRequest& request, const Caller& caller);
  // Compiles the grammar of a call, if it has one, and gives it to all its requests. May take long.
  Result<void> compile_grammar(PreparedCall& call);

 private:
  Result<Prepared> chat(const Json& body, const Caller& caller);
  Result<Prepared> completions(const Json& body, const Caller& caller);
  Result<Prepared> embeddings(const Json& body, const Caller& caller);
  Result<Prepared> tokenize(const Json& body) const;
  Result<Prepared> detokenize(const Json& body) const;

  // True if it rewrote a message of a user.
  bool normalize(ChatRequest& request) const;
  Result<text::EncodedPrompt> encode_chat(const ChatRequest& request) const;
  Result<text::EncodedPrompt> encode_input(const PromptInput& input, bool parse_special,
                                           std::string_view field) const;
  Result<void> check_model(const std::string& name) const;
  // What may be generated after a prompt of that length; kContextLength if not even one token.
  Result<std::uint32_t> fit_max_tokens(std::size_t prompt_tokens,
                                       std::optional<std::uint32_t> wanted,
                                       std::string_view field) const;
  // Refuses text that cannot fit, before the work of tokenizing it.
  Result<void> check_length(std::size_t text_bytes, std::string_view field) const;
  Result<engine::GenerateRequest> generate(text::EncodedPrompt prompt,
                                           const GenerationFields& fields, const Caller& caller,
                                           std::string_view field) const;
  AnswerIdentity identity(std::string_view id_prefix);
  FrameOptions frame(std::string_view id_prefix, const GenerationFields& fields);

  const ServerParts parts_;
  const ServerOptions options_;
  const GenerationDefaults defaults_;
  const std::string fingerprint_;
  const std::size_t longest_token_bytes_;
  IdSource ids_;
};

}  // namespace refrain::serve
