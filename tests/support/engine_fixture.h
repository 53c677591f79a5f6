// What engine tests share: a recording stream, and an engine over a ledger, a HashExecutor and a
// ByteTokenizer, with a clock that only the test moves.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/sampler.h"
#include "kv/ledger.h"
#include "metrics/registry.h"
#include "support/byte_tokenizer.h"
#include "support/hash_executor.h"

namespace refrain::test {

using engine::FinishReason;
using engine::GenerateRequest;
using engine::TokenEvent;

// Keeps all events of one request. Written by the engine thread, read after wait().
class RecordedStream final : public engine::OutputStream {
 public:
  void on_event(TokenEvent event) override {
    std::lock_guard lock(mutex_);
    EXPECT_FALSE(ended_) << "an event after the last one";
    ended_ = event.kind == TokenEvent::Kind::kFinished || event.kind == TokenEvent::Kind::kError;
    events_.push_back(std::move(event));
    changed_.notify_all();
  }

  // Until the last event; false after half a minute, which is a hang.
  bool wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), [this] { return ended_; });
  }
  // Until at least `count` events came, or the last one.
  bool wait_for_events(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30),
                             [&] { return ended_ || events_.size() >= count; });
  }

  std::vector<TokenEvent> events() const {
    std::lock_guard lock(mutex_);
    return events_;
  }
  TokenEvent last() const {
    std::lock_guard lock(mutex_);
    return events_.empty() ? TokenEvent{} : events_.back();
  }
  bool failed() const { return last().kind == TokenEvent::Kind::kError; }
  std::string text(std::uint32_t choice = 0) const {
    std::string joined;
    for (const TokenEvent& event : events())
      if (event.kind == TokenEvent::Kind::kText && event.choice == choice) joined += event.text;
    return joined;
  }
  TokenList tokens(std::uint32_t choice = 0) const {
    TokenList joined;
    for (const TokenEvent& event : events())
      if (event.kind == TokenEvent::Kind::kText && event.choice == choice)
        joined.insert(joined.end(), event.tokens.begin(), event.tokens.end());
    return joined;
  }
  std::vector<engine::TokenLogprob> logprobs(std::uint32_t choice = 0) const {
    std::vector<engine::TokenLogprob> joined;
    for (const TokenEvent& event : events())
      if (event.kind == TokenEvent::Kind::kText && event.choice == choice)
        joined.insert(joined.end(), event.logprobs.begin(), event.logprobs.end());
    return joined;
  }
  // The finish event of one choice; a default one if it did not come.
  TokenEvent finish_of(std::uint32_t choice = 0) const {
    for (const TokenEvent& event : events())
      if (event.kind == TokenEvent::Kind::kChoiceFinished && event.choice == choice) return event;
    return {};
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<TokenEvent> events_;
  bool ended_ = false;
};

struct BenchOptions {
  std::uint32_t block_size = 16;
  std::uint32_t block_count = 256;
  std::uint32_t reuse_step_tokens = 1;
  bool prefix_cache = true;
  engine::EngineOptions engine = {};
  capacity::ReadCost read_cost = {};
  std::vector<std::string> words = {};  // extra tokens
};

// An engine with everything around it. Submit, then start() (or the other way round), then wait.
class EngineBench {
 public:
  explicit EngineBench(BenchOptions options = {})
      : tokenizer(options.words),
        executor(options.block_size, options.block_count, vocabulary_size()) {
    auto created = kv::Ledger::create({.block_size = options.block_size,
                                       .block_count = options.block_count,
                                       .reuse_step_tokens = options.reuse_step_tokens,
                                       .prefix_cache = options.prefix_cache});
    ledger = std::move(created).value();
    engine::EngineParts parts;
    parts.tokenizer = &tokenizer;
    parts.executor = &executor;
    parts.ledger = ledger.get();
    parts.metrics = &metrics;
    parts.clock = &clock;
    parts.vocabulary_size = vocabulary_size();
    parts.embedding_dim = 4;
    parts.cache_root = Hash128{1, 2};
    parts.read_cost = options.read_cost;
    engine = std::make_unique<engine::Engine>(parts, options.engine);
  }

  std::uint32_t vocabulary_size() const { return static_cast<std::uint32_t>(tokenizer.size()); }

  std::shared_ptr<RecordedStream> submit(GenerateRequest request) {
    auto stream = std::make_shared<RecordedStream>();
    auto id = engine->submit(std::move(request), stream);
    EXPECT_TRUE(id.ok()) << (id.ok() ? "" : id.error().message);
    last_id = id.ok() ? *id : RequestId{};
    return stream;
  }
  // Submits to a running engine and waits for the end.
  std::shared_ptr<RecordedStream> run(GenerateRequest request) {
    auto stream = submit(std::move(request));
    EXPECT_TRUE(stream->wait());
    return stream;
  }

  // After stop(): nothing may be held, the books must be in order, no batch was wrong.
  void expect_clean() {
    engine->stop();
    EXPECT_EQ(ledger->verify(), "");
    EXPECT_EQ(ledger->counts().pinned, 0U);
    EXPECT_EQ(ledger->counts().reserved, 0U);
    EXPECT_EQ(ledger->counts().sequences, 0U);
    EXPECT_EQ(executor.violation, "");
    EXPECT_EQ(engine->snapshot().running, 0U);
    EXPECT_EQ(engine->snapshot().waiting, 0U);
  }

  ManualClock clock;
  ByteTokenizer tokenizer;
  HashExecutor executor;
  metrics::Registry metrics;
  std::unique_ptr<kv::Ledger> ledger;
  std::unique_ptr<engine::Engine> engine;
  RequestId last_id{};
};

// `count` tokens that look like text and depend on `seed`.
inline TokenList some_tokens(std::uint32_t count, std::uint64_t seed = 1) {
  TokenList tokens;
  for (std::uint32_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<TokenId>('a' + HashModel::mix(seed, i) % 26));
  return tokens;
}

inline GenerateRequest greedy(TokenList prompt, std::uint32_t max_tokens) {
  GenerateRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0.0F;
  return request;
}

// What a lone cold run generates, computed without engine, ledger or executor.
inline TokenList lone_cold_run(const HashModel& model, const GenerateRequest& request,
                               std::uint32_t choice = 0) {
  engine::Sampler sampler(request.sampling, request.sampling.seed.value_or(0) + choice,
                          request.prompt);
  TokenList tokens = request.prompt;
  TokenList generated;
  while (generated.size() < request.max_tokens) {
    std::vector<float> logits = model.logits_after(tokens);
    const TokenId token = sampler.sample(logits, nullptr).value().token;
    tokens.push_back(token);
    generated.push_back(token);
    if (token == ByteTokenizer::kEos && !request.ignore_eos) break;
  }
  return generated;
}

}  // namespace refrain::test
