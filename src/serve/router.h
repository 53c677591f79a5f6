// Router: which endpoint a method and path mean. One table; plain functions, any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "serve/http_message.h"

namespace refrain::serve {

enum class Endpoint {
  kChatCompletions,
  kCompletions,
  kEmbeddings,
  kModels,  // the list
  kModel,   // one by name; the rest of the path is the name
  kTokenize,
  kDetokenize,
  kHealth,
  kMetrics,
  kLedger,
};

// Who may call: health is open to everyone, metrics and ledger also to the admin key.
enum class Access { kOpen, kKey, kKeyOrAdmin };

struct Route {
  Endpoint endpoint{};
  Access access = Access::kKey;
  std::string rest = {};  // kModel: the name asked for
};

struct RouteResult {
  bool found = false;
  Route route = {};
  std::string allow = {};     // methods of this path ("GET, HEAD, OPTIONS"); "" for an unknown path
  HttpResponse refusal = {};  // 404 or 405 when not found
};

// HEAD counts as GET. OPTIONS is answered before (cors.h) and never found here, but `allow` is set.
RouteResult find_route(std::string_view method, std::string_view path);

}  // namespace refrain::serve
