// Random traffic on the engine with the HashExecutor: every answer must be exactly that of a lone
// cold run, whatever is cached, shared, evicted, chunked, batched or cancelled around it
// (A1, A2, A10, O-01, O-02, O-11, O-16), and afterwards nothing may be held.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "base/rng.h"
#include "support/engine_fixture.h"

namespace refrain::test {
namespace {

struct Traffic {
  EngineBench& bench;
  Rng& rng;
  struct Sent {
    GenerateRequest request;
    std::shared_ptr<RecordedStream> stream;
    RequestId id;
    bool cancelled = false;
  };
  std::vector<Sent> sent = {};

  // A prompt that shares a prefix of any length with an earlier one, border cases favoured.
  TokenList prompt() {
    TokenList tokens;
    if (!sent.empty() && rng.below(4) != 0) {
      const Sent& earlier = sent[rng.below(sent.size())];
      tokens = earlier.request.prompt;
      if (rng.below(3) == 0) {
        const TokenList reply = earlier.stream->tokens();
        tokens.insert(tokens.end(), reply.begin(), reply.end());
      }
      std::size_t keep = rng.below(tokens.size() + 1);
      if (rng.below(2) == 0) keep = std::min(tokens.size(), keep / 16 * 16 + rng.below(3));
      tokens.resize(keep);
    }
    const TokenList fresh = some_tokens(static_cast<std::uint32_t>(rng.below(40)), rng.next());
    tokens.insert(tokens.end(), fresh.begin(), fresh.end());
    if (tokens.size() > 150) tokens.resize(150);
    if (tokens.empty()) tokens.push_back(ByteTokenizer::kBos);
    return tokens;
  }

  GenerateRequest request() {
    GenerateRequest request = greedy(prompt(), static_cast<std::uint32_t>(rng.below(24)));
    if (rng.below(3) == 0) {
      request.sampling.temperature = 0.8F;
      request.sampling.top_p = 0.9F;
      request.sampling.repetition_penalty = 1.1F;
    }
    request.sampling.seed = rng.below(1000);
    request.choice_count = rng.below(4) == 0 ? 3 : 1;
    request.use_cache = rng.below(8) != 0;
    request.prompt_logprobs = rng.below(10) == 0;
    request.ignore_eos = rng.below(2) == 0;
    request.tenant = rng.below(3) == 0 ? "other" : "";
    request.salt = request.tenant.empty() ? Hash128{} : Hash128{7, 7};
    return request;
  }

  void send() {
    GenerateRequest next = request();
    auto stream = bench.submit(next);
    sent.push_back({std::move(next), std::move(stream), bench.last_id});
  }
};

void expect_cold_answer(const HashModel& model, const Traffic::Sent& sent) {
  RC_ASSERT(!sent.stream->failed());
  const TokenEvent last = sent.stream->last();
  const engine::Usage& usage = last.usage;
  if (sent.cancelled && last.finish_reason == FinishReason::kCancelled) return;
  RC_ASSERT(usage.prompt_tokens == sent.request.prompt.size());
  RC_ASSERT(usage.cached_tokens + usage.computed_tokens == usage.prompt_tokens);
  RC_ASSERT(usage.cached_tokens < usage.prompt_tokens);
  if (!sent.request.use_cache) RC_ASSERT(usage.cached_tokens == 0U);
  std::uint32_t generated = 0;
  for (std::uint32_t choice = 0; choice < sent.request.choice_count; ++choice) {
    const TokenList expected = lone_cold_run(model, sent.request, choice);
    RC_ASSERT(sent.stream->tokens(choice) == expected);
    generated += static_cast<std::uint32_t>(expected.size());
  }
  RC_ASSERT(usage.completion_tokens == generated);
}

RC_GTEST_PROP(EngineProperty, EveryAnswerIsThatOfALoneColdRun, ()) {
  Rng rng(*rc::gen::arbitrary<std::uint64_t>());
  BenchOptions options;
  // From a pool that barely holds one request to a roomy one.
  options.block_count = 12 + static_cast<std::uint32_t>(rng.below(3) * 24);
  options.reuse_step_tokens = rng.below(3) == 0 ? 16 : 1;
  options.engine.step_token_budget = 1 + static_cast<std::uint32_t>(rng.below(40));
  options.engine.max_running = 1 + static_cast<std::uint32_t>(rng.below(8));
  EngineBench bench(options);
  Traffic traffic{bench, rng};
  const bool start_late = rng.below(2) == 0;
  if (!start_late) bench.engine->start();
  for (std::uint64_t round = 1 + rng.below(25); round > 0; --round) {
    traffic.send();
    if (!start_late && rng.below(4) == 0) {
      Traffic::Sent& victim = traffic.sent[rng.below(traffic.sent.size())];
      if (rng.below(2) == 0) victim.stream->wait_for_events(rng.below(5));
      victim.cancelled = true;
      bench.engine->cancel(victim.id);
    }
    if (!start_late && rng.below(3) == 0) RC_ASSERT(traffic.sent.back().stream->wait());
  }
  if (start_late) bench.engine->start();
  for (const Traffic::Sent& sent : traffic.sent) RC_ASSERT(sent.stream->wait());
  bench.engine->stop();
  RC_ASSERT(bench.executor.violation == "");
  RC_ASSERT(bench.ledger->verify() == "");
  RC_ASSERT(bench.ledger->counts().pinned == 0U);
  RC_ASSERT(bench.ledger->counts().reserved == 0U);
  const HashModel model(bench.vocabulary_size());
  for (const Traffic::Sent& sent : traffic.sent) expect_cold_answer(model, sent);
}

RC_GTEST_PROP(EngineProperty, FiguresAgreeWithUsage, ()) {  // O-43
  Rng rng(*rc::gen::arbitrary<std::uint64_t>());
  EngineBench bench(BenchOptions{.block_count = 40});
  Traffic traffic{bench, rng};
  bench.engine->start();
  for (std::uint64_t round = 1 + rng.below(10); round > 0; --round) {
    traffic.send();
    if (rng.below(2) == 0) RC_ASSERT(traffic.sent.back().stream->wait());
  }
  double prompt = 0, cached = 0, computed = 0, generated = 0;
  for (const Traffic::Sent& sent : traffic.sent) {
    RC_ASSERT(sent.stream->wait());
    const engine::Usage usage = sent.stream->last().usage;
    prompt += usage.prompt_tokens;
    cached += usage.cached_tokens;
    computed += usage.computed_tokens;
    generated += usage.completion_tokens;
  }
  bench.engine->stop();
  using metrics::Metric;
  const metrics::Registry& counters = bench.metrics;
  RC_ASSERT(counters.value(Metric::kPromptTokens) == prompt);
  RC_ASSERT(counters.value(Metric::kPromptTokensCached) == cached);
  RC_ASSERT(counters.value(Metric::kPromptTokensComputed) == computed);
  RC_ASSERT(counters.value(Metric::kPromptTokensBySource, "local_cache_hit") == cached);
  RC_ASSERT(counters.value(Metric::kPromptTokensBySource, "local_compute") == computed);
  RC_ASSERT(counters.value(Metric::kPrefixCacheQueries) == prompt);
  RC_ASSERT(counters.value(Metric::kPrefixCacheHits) == cached);
  RC_ASSERT(counters.value(Metric::kGenerationTokens) == generated);
  RC_ASSERT(bench.engine->snapshot().generated_tokens == static_cast<std::uint64_t>(generated));
}

}  // namespace
}  // namespace refrain::test
