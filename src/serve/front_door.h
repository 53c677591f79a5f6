// FrontDoor: what can be said about a request from its head alone, before any of its body is read:
// Host and Origin, the route, the key, encodings. Immutable, any thread.
#pragma once

#include <optional>
#include <vector>

#include "serve/cors.h"
#include "serve/host_rule.h"
#include "serve/http_message.h"
#include "serve/key_ring.h"
#include "serve/router.h"
#include "serve/server.h"

namespace refrain::serve {

struct Admission {
  // Set: the request ends here with this answer (CORS headers included).
  std::optional<HttpResponse> refusal = {};
  bool routed = false;  // the path and method are known: `route` counts, also with a refusal
  Route route = {};
  Caller caller = {};
  std::vector<HttpHeader> cors_headers = {};  // for every answer to this request
};

class FrontDoor {
 public:
  explicit FrontDoor(const ServerOptions& options);
  Admission admit(const HttpRequest& head) const;

 private:
  std::optional<HttpResponse> check_source(const HttpRequest& head) const;

  const HostRule hosts_;
  const CorsRule cors_;
  const KeyRing keys_;
};

}  // namespace refrain::serve
