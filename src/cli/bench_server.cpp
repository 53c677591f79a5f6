// See bench_server.h.
#include "cli/bench_server.h"

#include <nlohmann/json.hpp>

#include "base/str.h"
#include "cli/api_keys.h"
#include "cli/input.h"

namespace refrain::cli {
namespace {

Result<std::string> first_model(const Url& url, const std::string& bearer) {
  constexpr std::uint32_t kTimeoutS = 30;
  HttpClient client(url, bearer, kTimeoutS);
  ASSIGN_OR_RETURN(const HttpReply reply, client.get("/v1/models"));
  const auto json = nlohmann::json::parse(reply.body, nullptr, false);
  if (reply.status != 200 || !json.is_object() || !json.contains("data") ||
      !json["data"].is_array() || json["data"].empty() || !json["data"][0].is_object() ||
      !json["data"][0].contains("id") || !json["data"][0]["id"].is_string()) {
    return Error{
        Code::kUnavailable, str_cat("/v1/models answered HTTP ", reply.status, " without a model"),
        reply.status == 401 ? "give the key with --api-key" : "name the model with --alias"};
  }
  return json["data"][0]["id"].get<std::string>();
}

}  // namespace

Result<BenchServer> bench_server(const Settings& settings) {
  BenchServer server;
  ASSIGN_OR_RETURN(server.url, parse_url(settings.text("--url")));
  if (const auto& keys = settings.list("--api-key"); !keys.empty()) {
    ASSIGN_OR_RETURN(const serve::ApiKey key, parse_api_key(keys.front(), 1));
    server.bearer = key.key;
  }
  if (const auto& names = settings.list("--alias"); !names.empty()) {
    server.model = names.front();
  } else {
    ASSIGN_OR_RETURN(server.model, first_model(server.url, server.bearer));
  }
  return server;
}

}  // namespace refrain::cli
