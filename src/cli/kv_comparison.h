// KvComparison: the same tokens through one executor over arenas of several KV formats, in step, so
// that their logits can be compared row by row without keeping those of a whole text. Main thread.
//
//   ASSIGN_OR_RETURN(auto comparison, KvComparison::create(compute, {kF16, kQ8}, 600, 64));
//   RETURN_IF_ERROR(comparison->feed(tokens, on_rows));  // rows of f16, then of q8
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "cli/runtime.h"
#include "kv/block_table.h"
#include "model/batch.h"
#include "model/kv_arena.h"
#include "model/open_tile.h"

namespace refrain::cli {

class KvComparison {
 public:
  // Has room for `max_tokens` in every format, with arenas of its own; `compute` outlives it and
  // gets its own arena back after each step. At most `step_tokens` rows run together.
  static Result<std::unique_ptr<KvComparison>> create(Compute& compute,
                                                      std::vector<model::KvFormat> formats,
                                                      std::uint32_t max_tokens,
                                                      std::uint32_t step_tokens);

  // Forgets what was fed.
  void begin() { length_ = 0; }

  // rows[i]: logits [count][vocabulary_size] with the i-th format, of positions [first, first +
  // count).
  using Rows = std::vector<std::span<const float>>;
  using OnRows = std::function<void(Position first, std::uint32_t count, const Rows& rows)>;
  // kInvalidArgument if there is no room. Without `on_rows` no logits but those of the last row.
  Result<void> feed(std::span<const TokenId> tokens, const OnRows& on_rows = {});
  // One token with one format alone, from where all are; the others need it too before feed().
  Result<void> feed_one(std::size_t format, std::span<const TokenId> tokens, std::uint32_t at);

  std::span<const model::KvFormat> formats() const { return formats_; }
  std::size_t vocabulary_size() const;

 private:
  struct Lane {
    std::unique_ptr<model::KvArena> arena;
    model::OpenTile open_tile;
    model::BatchOutput output;
  };

  KvComparison(Compute& compute, std::vector<model::KvFormat> formats, std::uint32_t max_tokens,
               std::uint32_t step_tokens);
  Result<void> run(Lane& lane, std::span<const TokenId> tokens, std::uint32_t at, bool all_logits);

  Compute& compute_;
  const std::vector<model::KvFormat> formats_;
  const std::uint32_t max_tokens_;
  const std::uint32_t step_tokens_;
  kv::BlockTable table_;  // of every lane
  std::vector<Lane> lanes_;
  std::uint32_t length_ = 0;
};

// What rows of a format lose against those of f16, and how well each predicts the text.
struct KvScore {
  std::size_t rows = 0;
  std::size_t agreeing = 0;  // the same likeliest token
  double kl = 0;             // sum, nats
  double nll = 0;            // sum over scored rows, nats
  std::size_t scored = 0;

  double mean_kl() const { return rows == 0 ? 0.0 : kl / static_cast<double>(rows); }
  double same_top() const {
    return rows == 0 ? 1.0 : static_cast<double>(agreeing) / static_cast<double>(rows);
  }
  double perplexity() const;
  // `reference` and `row`: [vocabulary_size].
  void add(std::span<const float> reference, std::span<const float> row);
  void add_target(std::span<const float> row, TokenId target);
};

}  // namespace refrain::cli
