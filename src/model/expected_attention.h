// ExpectedAttention: how much later queries are expected to attend to each row of a context, judged
// from the queries of some of its rows (Devoto et al. 2025, Expected Attention). No question is
// needed. Pure arithmetic; any thread, one at a time.
//
//   queries of recent rows, each turned back by its own position
//     -> mean mu [key_dim], covariance S [key_dim, key_dim]          of each layer and query head
//     -> mu' = R mu, S' = R S R^T                   R: mean rotation of the next 512 positions
//   logit(k)  = scale mu'.k + scale^2 / 2 k^T S' k    log of the mean of exp(scale q.k) over normal
//   q score(i)  = mean over the query heads of a group of softmax(logit)(i), times the length of
//   v_i
//
// The softmax goes over the rows behind the first 4, as published: these take most attention
// whatever they hold. Rows that a sliding window hides from the next row have score 0. Per layer
// and query head 4 (key_dim^2 + 2 key_dim) bytes are held, 4.6 MB for SmolLM2-135M.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "model/kv_arena.h"
#include "model/model.h"
#include "model/rotary.h"

namespace refrain::model {

class ExpectedAttention {
 public:
  // Rows at the beginning that are left out, of queries as well.
  static constexpr std::uint32_t kSinkRows = 4;
  static constexpr std::uint32_t kFutureRows = 512;
  // Where covariances would take more floats than this (256 MiB: a model of 64 layers with 64 heads
  // of 128 dims is just within), queries count as their mean.
  static constexpr std::size_t kMostCovariance = std::size_t{64} << 20U;

  // `model` outlives it.
  explicit ExpectedAttention(const Model& model, std::size_t most_covariance = kMostCovariance);

  // Takes queries in: [layer_count][positions][head_count][key_dim], as BatchOutput has them.
  void add(std::span<const float> queries, std::span<const Position> positions);
  // No more queries come; the next row is at `next`.
  void expect_from(Position next);
  bool is_ready() const { return is_ready_; }

  // Scores of the rows in `slots` of a layer and KV head, which stand at positions 0, 1, ..; >= 0,
  // 0 for the first 4 and those of a logit that is not finite. Once ready.
  void score(std::uint32_t layer, std::uint32_t kv_head, const KvArena& arena,
             std::span<const std::size_t> slots, std::span<float> scores) const;
  // Products that score() needs for each row.
  std::size_t products_per_row() const;

 private:
  // Of the layer's rotation: [dimensions / 2] each.
  struct Turn {
    std::vector<float> cosine, sine;
  };
  using Turns = std::array<Turn, 2>;  // of global and of local layers

  std::size_t head_at(std::uint32_t layer, std::uint32_t head) const;
  const Turn& turn_of(const Turns& turns, std::uint32_t layer) const;
  Turns turns_by(Position distance) const;
  Turns mean_turns(Position first) const;
  void turn(const Turn& by, float* x, std::size_t stride) const;
  void add_head(std::size_t head, const float* query, const Turn& back);
  void finish_head(std::size_t head, const Turn& ahead);
  std::size_t first_row(std::uint32_t layer) const;
  void logits_of_tile(std::size_t head, const float* keys, float* logits) const;

  const ModelShape& shape_;
  const ModelRotary rotary_;
  const bool has_covariance_;
  bool is_ready_ = false;
  std::uint32_t next_ = 0;
  std::size_t count_ = 0;          // queries of each head
  std::vector<float> shift_;       // [layers * heads][key_dim] the first query
  std::vector<float> mean_;        // likewise: sum of what is above the shift; ready: scale mu'
  std::vector<float> covariance_;  // [layers * heads][key_dim][key_dim], above the shift; ready:
                                   // scale^2 / 2 S', both halves folded into the lower one
  std::vector<float> query_;       // [key_dim] at hand
};

}  // namespace refrain::model
