// ModelBench: a small model of the fixture with real operators and its own arena, ledger and
// engine.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "engine/engine.h"
#include "model/executor.h"
#include "model/kv_arena.h"
#include "model/model.h"
#include "model/repair_choice.h"
#include "support/engine_fixture.h"
#include "text/tokenizer.h"

namespace refrain::test {

struct BenchModel {
  BenchModel(const char* given, model::KvFormat kv_format = model::KvFormat::kF16)
      : name(given), format(kv_format) {}
  std::string name;
  model::KvFormat format;
};

// A model with its own arena, ledger and engine.
struct ModelBench {
  // `slope`: of every rung of its gate, in nats per exposure; none: not calibrated.
  explicit ModelBench(const BenchModel& which, bool prefix_cache, std::uint32_t budget = 48,
                      std::optional<double> slope = {}, bool idle = true) {
    auto loaded = model::Model::load(
        {.path = std::string(REFRAIN_TEST_GENERATED) + "/" + which.name + ".gguf"});
    EXPECT_TRUE(loaded.ok()) << loaded.error().message;
    model = std::move(loaded).value();
    tokenizer = text::Tokenizer::create(model->vocabulary()).value();
    constexpr std::uint32_t kBlocks = 128;
    arena = model::KvArena::create(model->shape(), which.format, 16, kBlocks).value();
    executor =
        model::Executor::create_cpu(*model, *arena, {.thread_count = 1, .max_batch_rows = 64})
            .value();
    ledger = kv::Ledger::create({.block_size = 16,
                                 .block_count = kBlocks,
                                 .reuse_step_tokens = step(),
                                 .prefix_cache = prefix_cache})
                 .value();
    splice = model::Splice::create(*model, *arena).value();
    probes.emplace(model->shape(), *arena);
    if (slope) {
      model::ReuseGate::Slopes slopes;
      for (auto& of_change : slopes) of_change.fill(slope);
      gate.emplace(slopes);
    }
    engine::EngineParts parts;
    parts.reuse = {.splice = splice.get(),
                   .probes = &*probes,
                   .gate = gate ? &*gate : nullptr,
                   .first_mass_layer = model::first_looking_layer(model->shape().layer_count)};
    const model::ModelShape& shape = model->shape();
    parts.trim = {.ledger = ledger.get(),
                  .executor = executor.get(),
                  .arena = arena.get(),
                  .model = model.get(),
                  .can_look = true,
                  .layer_count = shape.layer_count,
                  .kv_head_count = shape.kv_head_count,
                  .vocabulary_size = shape.vocabulary_size,
                  .window = shape.sliding_window,
                  .repeat_request = tokenizer->encode(engine::kRepeatRequest, {.add_bos = false})};
    parts.tokenizer = tokenizer.get();
    parts.executor = executor.get();
    parts.ledger = ledger.get();
    parts.metrics = &metrics;
    parts.clock = &clock;
    parts.vocabulary_size = model->shape().vocabulary_size;
    parts.embedding_dim = model->shape().embedding_dim;
    parts.cache_root = model->fingerprint();
    engine = std::make_unique<engine::Engine>(
        parts, engine::EngineOptions{
                   .step_token_budget = budget, .max_running = 8, .idle_recompute = idle});
    engine->start();
  }

  std::shared_ptr<RecordedStream> submit(GenerateRequest request) {
    auto stream = std::make_shared<RecordedStream>();
    EXPECT_TRUE(engine->submit(std::move(request), stream).ok());
    return stream;
  }
  std::shared_ptr<RecordedStream> run(GenerateRequest request) {
    auto stream = submit(std::move(request));
    EXPECT_TRUE(stream->wait());
    return stream;
  }
  // The exact prefix is a multiple of this.
  std::uint32_t step() const { return kernels::reuse_step_tokens(arena->layout()); }
  std::uint32_t reusable(std::size_t tokens) const {
    return static_cast<std::uint32_t>(tokens - tokens % step());
  }
  // A prompt of ordinary tokens of this vocabulary.
  TokenList prompt(std::uint32_t count, std::uint64_t seed) const {
    TokenList tokens;
    while (tokens.size() < count) {
      const auto token =
          static_cast<TokenId>(HashModel::mix(seed++, 5) % model->shape().vocabulary_size);
      if (!tokenizer->is_control(token)) tokens.push_back(token);
    }
    return tokens;
  }

  SteadyClock clock;
  metrics::Registry metrics;
  std::unique_ptr<model::Model> model;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::unique_ptr<model::KvArena> arena;
  std::unique_ptr<model::Executor> executor;
  std::unique_ptr<kv::Ledger> ledger;
  std::unique_ptr<model::Splice> splice;
  std::optional<model::ProbeReader> probes;
  std::optional<model::ReuseGate> gate;
  std::unique_ptr<engine::Engine> engine;
};

}  // namespace refrain::test
