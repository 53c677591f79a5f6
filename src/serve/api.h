// Api: what each POST endpoint does with a body up to the engine's door: read, check, render,
// tokenize. Holds no state of requests; immutable after construction apart from the id counter.
// prepare() may take long for big bodies and runs on worker threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "serve/answer_frame.h"
#include "serve/chat_encoder.h"
#include "serve/chat_request.h"
#include "serve/completion_request.h"
#include "serve/id_source.h"
#include "serve/key_ring.h"
#include "serve/prepared_call.h"
#include "serve/router.h"
#include "serve/server.h"
#include "serve/summaries.h"

namespace refrain::serve {

class Api {
 public:
  // All outlive it.
  Api(const ServerParts& parts, const ServerOptions& options, const ChatEncoder& encoder,
      Summaries& summaries);

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
  // The prompt of a chat, shortened if its request or the server says so.
  Result<Shortened> encode_chat(const ChatRequest& request, const Caller& caller,
                                const std::string& label);
  Result<text::EncodedPrompt> encode_input(const PromptInput& input, bool parse_special,
                                           std::string_view field) const;
  Result<void> check_model(const std::string& name) const;
  // What may be generated after a prompt of that length; kContextLength if not even one token.
  Result<std::uint32_t> fit_max_tokens(std::size_t prompt_tokens,
                                       std::optional<std::uint32_t> wanted,
                                       std::string_view field) const;
  Result<engine::GenerateRequest> generate(text::EncodedPrompt prompt,
                                           const GenerationFields& fields, const Caller& caller,
                                           std::string_view field) const;
  static Hash128 cache_salt(const GenerationFields& fields, const Caller& caller);
  AnswerIdentity identity(std::string_view id_prefix);
  FrameOptions frame(std::string_view id_prefix, const GenerationFields& fields);

  const ServerParts parts_;
  const ServerOptions options_;
  const GenerationDefaults defaults_;
  const std::string fingerprint_;
  const ChatEncoder& encoder_;
  Summaries& summaries_;
  IdSource ids_;
};

}  // namespace refrain::serve
