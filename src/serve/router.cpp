// See router.h.
#include "serve/router.h"

#include <array>

#include "base/str.h"
#include "serve/error_shape.h"

namespace refrain::serve {
namespace {

struct Entry {
  std::string_view path;  // without the prefix /v1
  std::string_view method;
  Endpoint endpoint;
  Access access;
};

constexpr std::array<Entry, 9> kEntries = {{
    {"/chat/completions", "POST", Endpoint::kChatCompletions, Access::kKey},
    {"/completions", "POST", Endpoint::kCompletions, Access::kKey},
    {"/embeddings", "POST", Endpoint::kEmbeddings, Access::kKey},
    {"/models", "GET", Endpoint::kModels, Access::kKey},
    {"/tokenize", "POST", Endpoint::kTokenize, Access::kKey},
    {"/detokenize", "POST", Endpoint::kDetokenize, Access::kKey},
    {"/health", "GET", Endpoint::kHealth, Access::kOpen},
    {"/metrics", "GET", Endpoint::kMetrics, Access::kKeyOrAdmin},
    {"/ledger", "GET", Endpoint::kLedger, Access::kKeyOrAdmin},
}};

constexpr std::string_view kModelPrefix = "/models/";

std::string allowed_methods(std::string_view method) {
  return method == "GET" ? "GET, HEAD, OPTIONS" : str_cat(method, ", OPTIONS");
}

RouteResult match(std::string_view method, std::string_view path, const Entry& entry,
                  std::string rest) {
  RouteResult result;
  result.allow = allowed_methods(entry.method);
  if (method == entry.method || (method == "HEAD" && entry.method == "GET")) {
    result.found = true;
    result.route = Route{entry.endpoint, entry.access, std::move(rest)};
    return result;
  }
  result.refusal = error_response_with_status(
      405, Error{Code::kInvalidArgument, str_cat("method ", method, " is not allowed for ", path),
                 str_cat("use ", entry.method)});
  result.refusal.headers.push_back({"Allow", result.allow});
  return result;
}

}  // namespace

RouteResult find_route(std::string_view method, std::string_view path) {
  std::string_view name = path;
  if (name.starts_with("/v1/")) name.remove_prefix(3);
  if (name.size() > 1 && name.ends_with('/')) name.remove_suffix(1);
  for (const Entry& entry : kEntries)
    if (name == entry.path) return match(method, path, entry, "");
  if (name.starts_with(kModelPrefix)) {
    const Entry entry{kModelPrefix, "GET", Endpoint::kModel, Access::kKey};
    return match(method, path, entry, std::string(name.substr(kModelPrefix.size())));
  }
  RouteResult result;
  result.refusal = error_response(
      Error{Code::kNotFound, str_cat("there is no ", method, " ", path),
            "endpoints: /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/models, "
            "/tokenize, /detokenize, /health, /metrics, /v1/ledger"});
  return result;
}

}  // namespace refrain::serve
