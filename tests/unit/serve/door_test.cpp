// Who may call what: Host, Origin, keys, routes; and the bytes that answers become.
#include <gtest/gtest.h>

#include <string>

#include "serve/byte_budget.h"
#include "serve/front_door.h"
#include "serve/tenant_board.h"

namespace refrain::serve {
namespace {

HttpRequest request(std::string method, std::string target, std::vector<HttpHeader> headers = {}) {
  HttpRequest head;
  head.method = std::move(method);
  head.target = std::move(target);
  head.headers = std::move(headers);
  if (!head.has_header("Host")) head.headers.push_back({"Host", "127.0.0.1:8080"});
  return head;
}

ServerOptions with_keys() {
  ServerOptions options;
  options.api_keys = {{"key-a", "alice", 2}, {"key-b", "bob", 0}};
  options.admin_key = "boss";
  options.allowed_origins = {"https://app.example"};
  return options;
}

unsigned status_of(const FrontDoor& door, const HttpRequest& head) {
  const Admission admission = door.admit(head);
  return admission.refusal.has_value() ? admission.refusal->status : 200;
}

std::string value_of(const HttpResponse& response, std::string_view name) {
  for (const HttpHeader& header : response.headers)
    if (header.name == name) return header.value;
  return "<none>";
}

TEST(HostRule, knows_loopback_names_and_the_bound_address_only) {
  const HostRule rule({}, "127.0.0.1");
  for (const char* host : {"localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:8080", "127.1.2.3"})
    EXPECT_TRUE(rule.allows(host)) << host;
  for (const char* host : {"evil.example", "localhost.evil.example", "127.evil.example", "10.0.0.1",
                           "", "[::1", "0.0.0.0"})
    EXPECT_FALSE(rule.allows(host)) << host;
  const HostRule wide({}, "0.0.0.0");
  EXPECT_TRUE(wide.allows("10.0.0.7:80"));
  EXPECT_TRUE(wide.allows("[fe80::1]:80"));
  EXPECT_FALSE(wide.allows("evil.example"));
  const HostRule named({"llm.example:443"}, "0.0.0.0");
  EXPECT_TRUE(named.allows("LLM.example"));
  EXPECT_FALSE(named.allows("10.0.0.7"));
}

TEST(FrontDoor, refuses_foreign_hosts_and_origins_before_anything_else) {
  const FrontDoor door((ServerOptions()));
  EXPECT_EQ(status_of(door, request("GET", "/health", {{"Host", "evil.example"}})), 403U);
  EXPECT_EQ(
      status_of(door, request("POST", "/v1/completions", {{"Origin", "http://evil.example"}})),
      403U);
  EXPECT_EQ(status_of(door, request("POST", "/v1/completions", {{"Origin", "null"}})), 403U);
  EXPECT_EQ(
      status_of(door, request("POST", "/v1/completions", {{"Origin", "http://127.0.0.1:8080"}})),
      200U);
  HttpRequest without_host = request("GET", "/health");
  without_host.headers.clear();
  EXPECT_EQ(status_of(door, without_host), 400U);
  without_host.http_1_0 = true;
  EXPECT_EQ(status_of(door, without_host), 200U);
}

TEST(FrontDoor, answers_a_preflight_without_a_key) {  // O-23
  const FrontDoor door(with_keys());
  const Admission admission =
      door.admit(request("OPTIONS", "/v1/chat/completions",
                         {{"Origin", "https://app.example"},
                          {"Access-Control-Request-Headers", "authorization,content-type"}}));
  ASSERT_TRUE(admission.refusal.has_value());
  EXPECT_EQ(admission.refusal->status, 204U);
  EXPECT_EQ(value_of(*admission.refusal, "Access-Control-Allow-Origin"), "https://app.example");
  EXPECT_EQ(value_of(*admission.refusal, "Access-Control-Allow-Headers"),
            "authorization,content-type");
  EXPECT_NE(value_of(*admission.refusal, "Access-Control-Allow-Methods").find("POST"),
            std::string::npos);
}

TEST(FrontDoor, asks_for_a_key_and_sends_cors_headers_with_the_refusal) {  // O-23
  const FrontDoor door(with_keys());
  const auto post = [](const char* authorization) {
    return request("POST", "/v1/chat/completions",
                   {{"Origin", "https://app.example"}, {"Authorization", authorization}});
  };
  const Admission missing =
      door.admit(request("POST", "/v1/chat/completions", {{"Origin", "https://app.example"}}));
  ASSERT_TRUE(missing.refusal.has_value());
  EXPECT_EQ(missing.refusal->status, 401U);
  EXPECT_EQ(value_of(*missing.refusal, "Access-Control-Allow-Origin"), "https://app.example");
  EXPECT_EQ(status_of(door, post("Bearer wrong")), 401U);
  EXPECT_EQ(status_of(door, post("key-a")), 401U);
  EXPECT_EQ(status_of(door, post("Bearer ")), 401U);
  EXPECT_EQ(status_of(door, post("Bearer key-a")), 200U);
  EXPECT_EQ(status_of(door, post("bearer  key-b \r")), 200U);  // any case, blanks ignored
  EXPECT_EQ(status_of(door, post("Bearer boss")), 401U);       // the admin key is no user's
  EXPECT_EQ(door.admit(post("Bearer key-a")).caller.tenant, "alice");
  const Admission refused = door.admit(post("Bearer wrong"));
  EXPECT_EQ(refused.refusal->body.find("wrong"), std::string::npos);  // keys are never echoed
}

TEST(FrontDoor, leaves_health_open_and_metrics_to_any_key) {  // O-23
  const FrontDoor door(with_keys());
  const auto get = [](const char* path, const char* key) {
    return request("GET", path, {{"Authorization", key}});
  };
  EXPECT_EQ(status_of(door, request("GET", "/health")), 200U);
  EXPECT_EQ(status_of(door, request("GET", "/metrics")), 401U);
  EXPECT_EQ(status_of(door, get("/metrics", "Bearer key-b")), 200U);
  EXPECT_EQ(status_of(door, get("/metrics", "Bearer boss")), 200U);
  EXPECT_EQ(status_of(door, request("GET", "/v1/models")), 401U);
}

TEST(KeyRing, gives_tenants_salts_of_their_own_that_depend_on_their_keys) {
  const KeyRing ring({{"k1", "a"}, {"k2", "a"}, {"k3", "b"}}, "");
  const Hash128 first = ring.admit("Bearer k1", Access::kKey)->salt;
  EXPECT_EQ(first, ring.admit("Bearer k2", Access::kKey)->salt);
  EXPECT_NE(first, ring.admit("Bearer k3", Access::kKey)->salt);
  EXPECT_NE(first, KeyRing({{"k9", "a"}}, "").admit("Bearer k9", Access::kKey)->salt);
  EXPECT_EQ(KeyRing({}, "").admit("", Access::kKey)->salt, Hash128{});
}

TEST(Router, finds_endpoints_with_and_without_the_prefix) {
  for (const char* path : {"/v1/chat/completions", "/chat/completions", "/v1/chat/completions/"})
    EXPECT_EQ(find_route("POST", path).route.endpoint, Endpoint::kChatCompletions) << path;
  EXPECT_EQ(find_route("POST", "/v1/tokenize").route.endpoint, Endpoint::kTokenize);
  EXPECT_EQ(find_route("HEAD", "/health").route.endpoint, Endpoint::kHealth);
  const RouteResult model = find_route("GET", "/v1/models/org/name");
  EXPECT_EQ(model.route.endpoint, Endpoint::kModel);
  EXPECT_EQ(model.route.rest, "org/name");
}

TEST(Router, answers_unknown_paths_with_404_and_wrong_methods_with_405) {
  EXPECT_EQ(find_route("GET", "/nothing").refusal.status, 404U);
  EXPECT_EQ(find_route("POST", "/v1/v1/completions").refusal.status, 404U);
  const RouteResult wrong = find_route("GET", "/v1/completions");
  EXPECT_FALSE(wrong.found);
  EXPECT_EQ(wrong.refusal.status, 405U);
  EXPECT_EQ(value_of(wrong.refusal, "Allow"), "POST, OPTIONS");
}

TEST(HttpMessage, writes_whole_and_chunked_answers) {
  HttpResponse response{.body = "{}"};
  response.headers.push_back({"X-Evil", "a\r\nInjected: b"});
  const std::string whole = serialize(response, {});
  EXPECT_TRUE(whole.starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_NE(whole.find("Content-Length: 2\r\n"), std::string::npos);
  EXPECT_EQ(whole.find("\r\nInjected"), std::string::npos);
  EXPECT_TRUE(whole.ends_with("\r\n\r\n{}"));
  EXPECT_TRUE(serialize(response, {.head_only = true}).ends_with("\r\n\r\n"));
  EXPECT_NE(serialize_stream_head(response, {}).find("Transfer-Encoding: chunked"),
            std::string::npos);
  EXPECT_EQ(stream_piece("hello world, hello", {}), "12\r\nhello world, hello\r\n");
  EXPECT_EQ(stream_piece("", {}), "");
  EXPECT_EQ(stream_piece("x", {.http_1_0 = true}), "x");
  EXPECT_NE(serialize_stream_head(response, {.http_1_0 = true}).find("Connection: close"),
            std::string::npos);
  EXPECT_EQ(request("GET", "/v1/models/a%2Fb%zz?x=1").path(), "/v1/models/a/b%zz");
}

TEST(TenantBoard, bounds_what_waits_per_tenant) {
  TenantBoard board;
  const Caller caller{"alice", {}, 2};
  Result<TenantBoard::Ticket> one = board.enter(caller);
  Result<TenantBoard::Ticket> two = board.enter(caller);
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(board.enter(caller).error().code, Code::kQueueFull);
  EXPECT_TRUE(board.enter(Caller{"bob", {}, 2}).ok());
  one->release();
  one->release();
  EXPECT_TRUE(board.enter(caller).ok());
  EXPECT_EQ(board.waiting("alice"), 1U);
}

TEST(ByteBudget, gives_bytes_back_and_never_exceeds_its_limit) {
  ByteBudget budget(100);
  {
    const ByteBudget::Share share = budget.take(60);
    EXPECT_TRUE(share);
    EXPECT_FALSE(budget.take(41));
    EXPECT_TRUE(budget.take(40));
  }
  EXPECT_EQ(budget.used(), 0U);
}

}  // namespace
}  // namespace refrain::serve
