// GET /v1/ledger: what is planned and used, who sees which rows (B1, B7).
#include "serve/ledger_page.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "serve/router.h"
#include "support/engine_fixture.h"

namespace refrain::serve {
namespace {

using nlohmann::json;
using test::BenchOptions;
using test::EngineBench;
using test::greedy;
using test::some_tokens;

constexpr std::uint64_t kPerToken = 128;

BenchOptions options() {
  BenchOptions made;
  made.block_count = 64;
  made.read_cost = {.weight_bytes = 1'000'000, .kv_bytes_per_token = kPerToken};
  return made;
}

ServerParts parts_of(EngineBench& bench, double bandwidth = 0) {
  ServerParts parts;
  parts.engine = bench.engine.get();
  parts.model_name = "hash";
  parts.kv_format = "f16";
  parts.ledger = {.parameter_count = 500'000,
                  .weight_bytes = 1'000'000,
                  .layer_count = 1,
                  .kv_bytes_per_token = kPerToken,
                  .memory_bytes = 1'000'000 + 64 * 16 * kPerToken,
                  .context_tokens = 256,
                  .block_size = 16,
                  .read_bandwidth_bytes_per_s = bandwidth};
  return parts;
}

json page(const ServerParts& parts, const Caller& caller) {
  const HttpResponse response = ledger_page(parts, caller);
  EXPECT_EQ(response.status, 200U);
  json parsed = json::parse(response.body, nullptr, /*allow_exceptions=*/false);
  EXPECT_FALSE(parsed.is_discarded()) << response.body;
  return parsed;
}

TEST(LedgerPage, an_idle_server_tells_its_plan_and_uses_nothing_B1) {
  EngineBench bench(options());
  const json told = page(parts_of(bench), {});
  EXPECT_EQ(told["planned"]["kv_bytes_per_token"], kPerToken);
  EXPECT_EQ(told["planned"]["kv_budget_bytes"], 64 * 16 * kPerToken);
  EXPECT_EQ(told["planned"]["sequences"], 4);  // 1024 tokens / 256
  EXPECT_EQ(told["planned"]["prefill_flop"]["weights"], 2.0 * 500'000 * 256);
  EXPECT_EQ(told["used"]["free"]["blocks"], 64);
  EXPECT_EQ(told["used"]["free"]["bytes"], told["used"]["total"]["bytes"]);
  EXPECT_EQ(told["used"]["active"]["bytes"], 0);
  EXPECT_TRUE(told["requests"].empty());
  EXPECT_EQ(told["ended_requests"]["count"], 0);
  EXPECT_EQ(told["ended_requests"]["mean_kv_bytes"], 0);
  EXPECT_TRUE(told["tpot"]["predicted_ms"].is_null());
  EXPECT_TRUE(told["tpot"]["measured_ms"].is_null());
  EXPECT_TRUE(told["tpot"]["read_bandwidth_bytes_per_s"].is_null());
}

// Calls `look` on the engine thread before the fifth step of two running requests.
void while_two_run(EngineBench& bench, const std::function<void()>& look) {
  bench.executor.on_run = [&](const model::Batch&) {
    bench.clock.advance(2 * kMillisecond);
    if (bench.executor.run_count == 5) look();
  };
  std::vector<std::shared_ptr<test::RecordedStream>> streams;
  for (const char* tenant : {"alice", "bob"}) {
    auto request = greedy(some_tokens(20, *tenant), 10);
    request.ignore_eos = true;
    request.tenant = tenant;
    request.label = std::string("cmpl-") + tenant;
    streams.push_back(bench.submit(std::move(request)));
  }
  bench.engine->start();
  for (const auto& stream : streams) ASSERT_TRUE(stream->wait());
}

TEST(LedgerPage, a_key_sees_its_own_requests_and_the_admin_all_B1) {
  EngineBench bench(options());
  bool looked = false;
  while_two_run(bench, [&] {
    looked = true;
    const ServerParts parts = parts_of(bench, 1e9);
    const json alice = page(parts, {.tenant = "alice"});
    ASSERT_EQ(alice["requests"].size(), 1U);
    const json& row = alice["requests"][0];
    EXPECT_EQ(row["id"], "cmpl-alice");
    EXPECT_EQ(row["prompt_tokens"], 20);
    EXPECT_EQ(row["generated_tokens"], 4);
    EXPECT_EQ(row["class"], "short");
    EXPECT_TRUE(row["alarm"].is_null());
    EXPECT_EQ(row["throttled"], false);
    EXPECT_EQ(row["kv"]["tokens"], 23);  // the newest has no slot yet
    EXPECT_EQ(row["kv"]["bytes"], 23 * kPerToken);
    EXPECT_EQ(row["kv"]["block_bytes"], 2 * 16 * kPerToken);
    EXPECT_EQ(row["kv"]["peak_bytes"], 23 * kPerToken);
    // Steps of 2 ms with 20, 21, 22 and 23 tokens.
    EXPECT_EQ(row["kv"]["mean_bytes"], (20 + 21 + 22 + 23) * kPerToken / 4);
    EXPECT_DOUBLE_EQ(row["tpot"]["measured_ms"].get<double>(), 2.0);
    // Three decode steps read the weights and 2 x 21, 2 x 22, 2 x 23 tokens, at 1 GB/s.
    EXPECT_NEAR(row["tpot"]["predicted_ms"].get<double>(), 1.0 + 44 * kPerToken * 1e-6, 1e-9);
    EXPECT_NEAR(alice["tpot"]["predicted_ms"].get<double>(), 1.0 + 44 * kPerToken * 1e-6, 1e-6);
    EXPECT_DOUBLE_EQ(alice["tpot"]["measured_ms"].get<double>(), 2.0);
    EXPECT_EQ(alice["tpot"]["rows_per_step"], 2.0);
    EXPECT_EQ(alice["running"], 2);
    EXPECT_EQ(alice["used"]["active"]["blocks"], 4);
    EXPECT_EQ(page(parts, {.tenant = "bob"})["requests"][0]["id"], "cmpl-bob");
    EXPECT_TRUE(page(parts, {.tenant = "carol"})["requests"].empty());
    EXPECT_TRUE(page(parts, {})["requests"].empty()) << "no key's tenant is nobody's";
    EXPECT_EQ(page(parts, {.is_admin = true})["requests"].size(), 2U);
  });
  EXPECT_TRUE(looked);
  // Without a measurement at the start, the fastest step tells: 2 ms for each of them, so the
  // longest context.
  const json unmeasured = page(parts_of(bench), {.is_admin = true});
  EXPECT_EQ(unmeasured["tpot"]["bandwidth_from"], "the fastest decode step so far");
  EXPECT_NEAR(unmeasured["tpot"]["read_bandwidth_bytes_per_s"].get<double>(),
              (1'000'000 + 2 * 29 * kPerToken) / 2e-3, 1e-3);
  const json after = page(parts_of(bench), {.is_admin = true});
  EXPECT_TRUE(after["requests"].empty());
  EXPECT_EQ(after["used"]["active"]["bytes"], 0);
  EXPECT_EQ(after["used"]["reserved"]["bytes"], 0);
  EXPECT_EQ(after["ended_requests"]["count"], 2);
  EXPECT_EQ(after["ended_requests"]["largest_kv_bytes"], 29 * kPerToken);
  EXPECT_EQ(after["ended_requests"]["mean_of_peak_kv_bytes"], 29 * kPerToken);
  bench.expect_clean();
}

TEST(LedgerPage, is_for_any_key_and_for_the_admin) {
  for (const char* path : {"/v1/ledger", "/ledger", "/v1/ledger/"}) {
    const RouteResult found = find_route("GET", path);
    ASSERT_TRUE(found.found) << path;
    EXPECT_EQ(found.route.endpoint, Endpoint::kLedger);
    EXPECT_EQ(found.route.access, Access::kKeyOrAdmin);
  }
  EXPECT_EQ(find_route("POST", "/v1/ledger").refusal.status, 405U);
  const KeyRing keys({{"key-a", "alice", 0}}, "boss");
  EXPECT_EQ(keys.admit("Bearer key-a", Access::kKeyOrAdmin)->tenant, "alice");
  EXPECT_FALSE(keys.admit("Bearer key-a", Access::kKeyOrAdmin)->is_admin);
  EXPECT_TRUE(keys.admit("Bearer boss", Access::kKeyOrAdmin)->is_admin);
  EXPECT_FALSE(keys.admit("Bearer wrong", Access::kKeyOrAdmin).ok());
  EXPECT_FALSE(keys.admit("", Access::kKeyOrAdmin).ok());
}

}  // namespace
}  // namespace refrain::serve
