// One request of a measuring client: asks a plain OpenAI server for a streamed chat answer and
// notes when its text came. One owner, any one thread.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "cli/http_client.h"

namespace refrain::cli {

struct RequestSample {
  double ttft_ms = 0;  // sent until the first text
  double tpot_ms = 0;  // mean per token after the first; 0 with fewer than two
  double total_ms = 0;
  std::uint64_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
  std::string error;  // "" = answered
};

struct StreamedAnswer {
  RequestSample sample;
  std::string text;
};

// `body`: JSON of a chat request with "stream": true. What goes wrong stands in sample.error.
StreamedAnswer ask_chat(HttpClient& client, const std::string& body, const Clock& clock);

}  // namespace refrain::cli
