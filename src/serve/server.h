// Server: HTTP on Boost.Asio/Beast coroutines; turns OpenAI requests into engine requests and
// events into JSON or SSE. Boost headers stay in serve/*.cpp. A few network threads; they never
// touch kv, arena or sequences, only Engine's public calls, the tokenizer and the template (both
// immutable).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "capacity/ledgers.h"
#include "engine/engine.h"
#include "engine/grammar.h"
#include "metrics/registry.h"
#include "serve/summary_rule.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace refrain::serve {

struct ApiKey {
  std::string key;
  std::string tenant;             // own salt, own quota
  std::uint32_t max_waiting = 0;  // 0 = server default
};

struct ServerOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;  // 0 = any free port, see port()
  std::uint32_t network_threads = 2;
  std::vector<ApiKey> api_keys;  // empty = open
  std::string
      admin_key;  // empty = admin calls refused unless no keys are set and bound to loopback
  std::vector<std::string>
      allowed_origins;  // CORS; empty = cross-origin requests refused; "*" = any
  std::vector<std::string>
      allowed_hosts;  // Host header; empty = loopback names and the bound address
  std::size_t max_body_bytes = 32U << 20U;
  std::size_t max_header_bytes = 16U << 10U;
  std::uint32_t max_connections = 2048;
  std::uint32_t max_json_depth = 64;
  std::uint32_t header_timeout_s = 15;  // a client must have sent its header by then
  std::uint32_t body_timeout_s = 60;
  std::uint32_t idle_timeout_s = 75;        // keep-alive
  std::uint32_t write_timeout_s = 60;       // a client that does not read
  std::uint32_t keep_alive_comment_s = 10;  // SSE comment while nothing is generated
  std::uint32_t drain_grace_s = 30;
  std::uint32_t request_timeout_s = 0;           // 0 = none
  std::uint32_t max_tokens = 2048;               // default and ceiling of generated tokens
  std::uint32_t max_choices = 16;                // ceiling of n
  bool any_model_name = false;                   // true: `model` of a request is ignored
  bool normalize_input = false;                  // user messages are rewritten (text/normalizer.h)
  engine::SamplingParams default_sampling = {};  // used where a request leaves a field out
  engine::ReuseWish default_reuse = {};          // likewise
  engine::ContextWish default_context = {};      // likewise
  SummaryRule default_summary = {};              // likewise, of chats
};

// What the server speaks for; composed in cli/, outlives the server.
struct ServerParts {
  engine::Engine* engine = nullptr;
  engine::GrammarCompiler* grammars = nullptr;
  const text::Tokenizer* tokenizer = nullptr;
  const text::ChatTemplate* chat_template = nullptr;  // null: chat is refused with a clear message
  metrics::Registry* metrics = nullptr;
  const Clock* clock = nullptr;
  std::string model_name;   // as shown by /v1/models and in responses
  std::string exactness;    // "token" | "bitwise"
  bool calibrated = false;  // for approximate reuse: `refrain calibrate` has measured this model
  std::uint32_t max_context = 0;
  // The option that allows a longer one; "" = none does, the model has no longer context.
  std::string_view longer_by = "--max-context";
  std::uint32_t embedding_dim = 0;
  std::vector<std::string> model_aliases = {};  // further names that requests may use
  capacity::LedgerInput ledger = {};            // what was planned at the start
  std::string kv_format = {};                   // "f16"
};

class Server {
 public:
  Server(const ServerParts& parts, const ServerOptions& options);
  ~Server();
  // Binds and begins to serve on own threads. kUnavailable if the address is taken (hint: --port).
  Result<void> start();
  std::uint16_t port() const;
  // New work is refused with 503, streams finish or end with a final error within drain_grace_s;
  // returns when the last connection is closed or the grace time is over.
  void drain();
  void stop();  // closes everything now; idempotent

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace refrain::serve
