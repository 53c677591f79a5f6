// Answers about the server itself: /health, /metrics, /v1/models. They read copies and counters
// only, so they never wait for the engine. Any thread.
#pragma once

#include <string_view>

#include "serve/http_message.h"
#include "serve/server.h"

namespace refrain::serve {

// 200 {"status": "ok", ...}, or 503 {"status": "draining", ...}.
HttpResponse health_page(const ServerParts& parts, bool draining);
// Prometheus text format.
HttpResponse metrics_page(const ServerParts& parts);
HttpResponse models_page(const ServerParts& parts, const ServerOptions& options,
                         std::int64_t started_s);
// One model by name; 404 for another.
HttpResponse model_page(const ServerParts& parts, const ServerOptions& options,
                        std::int64_t started_s, std::string_view name);

}  // namespace refrain::serve
