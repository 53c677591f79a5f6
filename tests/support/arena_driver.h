// ArenaDriver: runs token lists through an Executor with block tables made by hand, without ledger
// or engine: sequences get the blocks the test gives them. For tests and golden data.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "kv/block_table.h"
#include "model/executor.h"
#include "model/kv_arena.h"
#include "model/model.h"
#include "model/open_tile.h"

namespace refrain::test {

enum class Kernels { kCpu, kGgml };  // our own, or the reference

struct DriverOptions {
  std::uint32_t thread_count = 1;
  std::uint32_t block_size = 16;
  std::uint32_t block_count = 64;
  std::uint32_t max_batch_rows = 512;
  model::KvFormat format = model::KvFormat::kF16;
  Kernels kernels = Kernels::kCpu;
};

// A sequence under way: its tokens, how many of them have K/V, and its blocks.
struct DrivenSequence {
  TokenList tokens;
  std::uint32_t done = 0;
  kv::BlockTable table;
  mutable model::OpenTile open_tile = {};
};

// A part of a step: the next `row_count` tokens of a sequence.
struct Piece {
  DrivenSequence* sequence = nullptr;
  std::uint32_t row_count = 0;
};

class ArenaDriver {
 public:
  ArenaDriver(const model::Model& model, const DriverOptions& options)
      : options_(options), vocabulary_size_(model.shape().vocabulary_size) {
    auto arena = model::KvArena::create(model.shape(), options.format, options.block_size,
                                        options.block_count);
    CHECK(arena.ok(), "arena");
    arena_ = std::move(arena).value();
    const model::ExecutorOptions wanted{.thread_count = options.thread_count,
                                        .max_batch_rows = options.max_batch_rows};
    auto executor = options.kernels == Kernels::kCpu
                        ? model::Executor::create_cpu(model, *arena_, wanted)
                        : model::Executor::create_ggml(model, *arena_, wanted);
    CHECK(executor.ok(), "executor");
    executor_ = std::move(executor).value();
  }

  // Gives the sequence unused blocks until it can hold `length` tokens.
  void grow(DrivenSequence& sequence, std::uint32_t length) {
    while (sequence.table.size() * options_.block_size < length) {
      CHECK(next_block_ < options_.block_count, "the driver is out of blocks");
      sequence.table.push_back(BlockId{next_block_++});
    }
  }

  // Runs the pieces as one batch. Returns logits of all rows, [rows, vocabulary].
  const std::vector<float>& step(const std::vector<Piece>& pieces) {
    model::Batch batch;
    for (const Piece& piece : pieces) {
      DrivenSequence& s = *piece.sequence;
      const std::uint32_t end = s.done + piece.row_count;
      CHECK(end <= s.tokens.size(), "a piece reaches beyond its tokens");
      grow(s, end);
      const auto index = static_cast<std::uint32_t>(batch.sequences.size());
      batch.sequences.push_back({.table = &s.table, .length = end, .open_tile = &s.open_tile});
      for (; s.done < end; ++s.done) {
        const auto position = static_cast<Position>(s.done);
        batch.rows.push_back({s.tokens[s.done], position, index,
                              kv::slot_of(s.table, position, options_.block_size), true, false});
      }
    }
    const auto result = executor_->run(batch, output_);
    CHECK(result.ok(), "the step failed");
    CHECK(output_.logits.size() == batch.rows.size() * vocabulary_size_, "logits are missing");
    return output_.logits;
  }

  model::Executor& executor() { return *executor_; }
  model::KvArena& arena() { return *arena_; }
  std::uint32_t next_block() const { return next_block_; }
  void reset() { next_block_ = 0; }

 private:
  DriverOptions options_;
  std::uint32_t vocabulary_size_;
  std::uint32_t next_block_ = 0;
  std::unique_ptr<model::KvArena> arena_;
  std::unique_ptr<model::Executor> executor_;
  model::BatchOutput output_;
};

}  // namespace refrain::test
