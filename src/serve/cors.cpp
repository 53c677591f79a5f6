// See cors.h.
#include "serve/cors.h"

#include <algorithm>
#include <cctype>

namespace refrain::serve {
namespace {

// "http://host:port" of the Host header; the scheme is not ours to know behind a proxy.
bool same_origin(std::string_view origin, std::string_view host) {
  const std::size_t scheme = origin.find("://");
  return scheme != std::string_view::npos && !host.empty() &&
         equals_ignoring_case(origin.substr(scheme + 3), host);
}

bool is_header_list(std::string_view text) {
  return text.size() <= 1024 && std::all_of(text.begin(), text.end(), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == ',' ||
                  c == ' ';
         });
}

}  // namespace

CorsRule::CorsRule(std::vector<std::string> allowed_origins)
    : allowed_(std::move(allowed_origins)) {}

bool CorsRule::listed(std::string_view origin) const {
  return std::any_of(allowed_.begin(), allowed_.end(), [&](const std::string& allowed) {
    return allowed == "*" || equals_ignoring_case(allowed, origin);
  });
}

bool CorsRule::allows(const HttpRequest& request) const {
  const std::string_view origin = request.header("Origin");
  return origin.empty() || listed(origin) || same_origin(origin, request.header("Host"));
}

std::vector<HttpHeader> CorsRule::headers(const HttpRequest& request) const {
  const std::string_view origin = request.header("Origin");
  if (origin.empty() || !allows(request)) return {};
  return {{"Access-Control-Allow-Origin", std::string(origin)},
          {"Vary", "Origin"},
          {"Access-Control-Expose-Headers", "Retry-After, X-Request-Id"}};
}

HttpResponse CorsRule::preflight(const HttpRequest& request, std::string_view allow) const {
  HttpResponse response;
  response.status = 204;
  response.content_type.clear();
  response.headers.push_back({"Allow", std::string(allow)});
  if (request.header("Origin").empty()) return response;
  const std::string_view asked = request.header("Access-Control-Request-Headers");
  response.headers.push_back({"Access-Control-Allow-Methods", std::string(allow)});
  response.headers.push_back(
      {"Access-Control-Allow-Headers", !asked.empty() && is_header_list(asked)
                                           ? std::string(asked)
                                           : "Authorization, Content-Type"});
  response.headers.push_back({"Access-Control-Max-Age", "600"});
  if (request.has_header("Access-Control-Request-Private-Network"))
    response.headers.push_back({"Access-Control-Allow-Private-Network", "true"});
  return response;
}

}  // namespace refrain::serve
