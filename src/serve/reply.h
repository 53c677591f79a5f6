// Reply: turns the events of one call into the text of its answer, whole or streamed. One
// implementation per endpoint; none knows sockets. One per call, on the connection's strand.
#pragma once

#include <cstdint>
#include <string>

#include "engine/request.h"

namespace refrain::serve {

// What all chunks and the whole answer have in common.
struct AnswerIdentity {
  std::string id;  // "chatcmpl-..."
  std::int64_t created_s = 0;
  std::string model;
  std::string fingerprint;  // changes when answers may change
};

class Reply {
 public:
  virtual ~Reply() = default;
  // Takes an event of the call's engine request number `prompt` (a call with several prompts makes
  // several). Returns what can be sent now: SSE text when streaming, else "".
  virtual std::string take(std::uint32_t prompt, engine::TokenEvent event) = 0;
  // After the last event: the rest of the stream up to [DONE], or the whole JSON body.
  virtual std::string finish() = 0;
};

}  // namespace refrain::serve
