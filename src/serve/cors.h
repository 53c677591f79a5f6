// CorsRule: which web pages may call. Cross-origin requests are refused unless their origin is
// allowed; a page that we served ourselves (same origin) is fine. Immutable, any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http_message.h"

namespace refrain::serve {

class CorsRule {
 public:
  explicit CorsRule(std::vector<std::string> allowed_origins);  // "*" = any

  // True if the request has no Origin, comes from our own origin, or from an allowed one.
  bool allows(const HttpRequest& request) const;
  // Headers that every answer to this request carries, errors and streams included. Empty without
  // an Origin or for a refused one.
  std::vector<HttpHeader> headers(const HttpRequest& request) const;
  // Answer to OPTIONS: 204; needs no key, since browsers send none with a preflight.
  HttpResponse preflight(const HttpRequest& request, std::string_view allow) const;

 private:
  bool listed(std::string_view origin) const;

  const std::vector<std::string> allowed_;
};

}  // namespace refrain::serve
