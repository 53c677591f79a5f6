// PreparedCall: a client's request, checked, rendered and tokenized: what the engine is asked to do
// and who turns its events into the answer. Plain data; made on a worker thread, then moved to the
// connection's strand.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/grammar.h"
#include "engine/request.h"
#include "serve/http_message.h"
#include "serve/reply.h"

namespace refrain::serve {

struct PreparedCall {
  std::string id;                                 // also sent as X-Request-Id
  std::vector<engine::GenerateRequest> requests;  // at least one; several prompts give several
  std::optional<engine::GrammarSpec> grammar;     // still to be compiled, for all requests
  std::unique_ptr<Reply> reply;
  std::function<void()> when_answering = {};  // called once, when the answer has begun
  bool stream = false;
};

// Either a call for the engine or an answer that needed none.
struct Prepared {
  std::optional<PreparedCall> call = {};
  HttpResponse response = {};
};

}  // namespace refrain::serve
