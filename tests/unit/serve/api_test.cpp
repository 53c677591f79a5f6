// What a body becomes for the engine: defaults of the server, wishes of the request.
#include "serve/api.h"

#include <gtest/gtest.h>

#include "support/engine_fixture.h"

namespace refrain::serve {
namespace {

using engine::GenerateRequest;
using engine::ReuseMode;
using test::EngineBench;

class ApiTest : public testing::Test {
 protected:
  // What the engine would get; nothing if the body is refused.
  std::vector<GenerateRequest> requests(const ServerOptions& options, Endpoint endpoint,
                                        const std::string& body) {
    ServerParts parts;
    parts.engine = bench_.engine.get();
    parts.tokenizer = &bench_.tokenizer;
    parts.metrics = &bench_.metrics;
    parts.clock = &clock_;
    parts.model_name = "hash";
    parts.max_context = 2048;
    parts.embedding_dim = 4;
    const ChatEncoder encoder(bench_.tokenizer, nullptr, parts.max_context);
    EngineSubmitter submitter(*bench_.engine);
    Summaries summaries(encoder, submitter, bench_.metrics, parts.max_context);
    Api api(parts, options, encoder, summaries);
    HttpRequest request;
    request.body = body;
    Result<Prepared> prepared = api.prepare(Route{endpoint}, request, Caller{});
    EXPECT_TRUE(prepared.ok()) << body << ": " << prepared.error().message;
    if (!prepared.ok() || !prepared->call.has_value()) return {};
    return std::move(prepared->call->requests);
  }

  EngineBench bench_;
  SteadyClock clock_;
};

TEST_F(ApiTest, reuse_is_the_servers_unless_the_request_says_otherwise) {
  ServerOptions options;
  for (const GenerateRequest& each : requests(options, Endpoint::kCompletions, R"({"prompt":"a"})"))
    EXPECT_EQ(each.reuse.mode, ReuseMode::kExact);
  options.default_reuse = {.mode = ReuseMode::kRepair, .max_divergence = 0.25};
  const auto plain = requests(options, Endpoint::kCompletions, R"({"prompt":["a","b"]})");
  ASSERT_EQ(plain.size(), 2U);
  for (const GenerateRequest& each : plain) {
    EXPECT_EQ(each.reuse.mode, ReuseMode::kRepair);
    EXPECT_EQ(each.reuse.max_divergence, 0.25);
  }
  const auto own = requests(options, Endpoint::kCompletions,
                            R"({"prompt":["a","b"],"reuse":{"mode":"splice","max_divergence":1}})");
  ASSERT_EQ(own.size(), 2U);
  for (const GenerateRequest& each : own) {
    EXPECT_EQ(each.reuse.mode, ReuseMode::kSplice);
    EXPECT_EQ(each.reuse.max_divergence, 1.0);
  }
}

TEST_F(ApiTest, embeddings_are_exact_whatever_the_server_does) {
  ServerOptions options;
  options.default_reuse.mode = ReuseMode::kSplice;
  const auto made =
      requests(options, Endpoint::kEmbeddings, R"({"input":["a","b"],"reuse":"splice"})");
  ASSERT_EQ(made.size(), 2U);
  for (const GenerateRequest& each : made) EXPECT_EQ(each.reuse.mode, ReuseMode::kExact);
}

}  // namespace
}  // namespace refrain::serve
