// AttentionProblem: random queries, keys and values of one sequence, how they come into an arena of
// shuffled blocks, how a kernel runs over them, and what a plain softmax in double precision makes
// of the stored rows, with a bound for the difference. For tests of the attention kernels.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/rng.h"
#include "kernels/cpu_kernels.h"
#include "kernels/hadamard.h"
#include "support/remainders.h"

namespace refrain::kernels {

inline float random_value(Rng& rng) {
  return static_cast<float>(static_cast<double>(rng.next() >> 40) / (1 << 24)) * 4.0F - 2.0F;
}

struct AttentionProblem {
  AttentionShape shape;
  std::uint32_t length = 0;                // tokens of the sequence
  std::vector<float> query, keys, values;  // [length][heads][dim], in position order

  std::size_t key_row() const { return std::size_t{shape.kv_head_count} * shape.key_dim; }
  std::size_t value_row() const { return std::size_t{shape.kv_head_count} * shape.value_dim; }
  std::size_t query_row() const { return std::size_t{shape.head_count} * shape.key_dim; }
  std::size_t output_row() const { return std::size_t{shape.head_count} * shape.value_dim; }

  static AttentionProblem random(const AttentionShape& shape, std::uint32_t length,
                                 std::uint64_t seed) {
    AttentionProblem p{shape, length, {}, {}, {}};
    Rng rng(seed);
    p.query.resize(p.query_row() * length);
    p.keys.resize(p.key_row() * length);
    p.values.resize(p.value_row() * length);
    for (float& x : p.query) x = random_value(rng);
    for (float& x : p.keys) x = random_value(rng);
    for (float& x : p.values) x = random_value(rng);
    return p;
  }
};

// A problem's keys and values in shuffled blocks; all else in the arena is NaN.
struct PagedArena {
  KvLayout layout;
  std::uint32_t block_size = 0;
  std::vector<BlockId> table;
  std::vector<std::byte> bytes;
  Remainders remainders;  // of all rows

  PagedArena(const AttentionProblem& p, KvFormat format, std::uint32_t tokens_per_block,
             std::uint64_t seed)
      : block_size(tokens_per_block) {
    const std::uint32_t blocks = (p.length + block_size - 1) / block_size;
    std::vector<std::uint32_t> order(blocks + 3);
    std::iota(order.begin(), order.end(), 0U);
    Rng rng(seed);
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.next() % i]);
    for (std::uint32_t b = 0; b < blocks; ++b) table.push_back(BlockId{order[b]});
    layout = make_kv_layout(format, p.shape.kv_head_count, p.shape.key_dim, p.shape.value_dim,
                            order.size() * block_size / kTileTokens);
    bytes.assign(layout.layer_bytes, std::byte{0xFF});  // NaN as float16 and as float
    remainders = Remainders(layout, p.length);
    cpu_kernels(best_instruction_set())
        .store_kv_rows(layout, bytes.data(), 0, slots(0, p.length).data(), p.length, p.keys.data(),
                       p.values.data(), remainders.rows.data());
  }

  std::int64_t slot(std::uint32_t position) const {
    const auto block = static_cast<std::uint32_t>(table[position / block_size]);
    return std::int64_t{block} * block_size + position % block_size;
  }
  std::vector<std::int64_t> slots(std::uint32_t from, std::uint32_t to) const {
    std::vector<std::int64_t> list;
    for (std::uint32_t t = from; t < to; ++t) list.push_back(slot(t));
    return list;
  }
};

struct RunOptions {
  std::uint32_t thread_count = 1;  // the plan's; tasks run one after the other
  InstructionSet set = best_instruction_set();
  std::uint64_t task_order_seed = 0;    // 0: as planned
  std::uint32_t mass_row = UINT32_MAX;  // position whose attention mass is wanted
  std::vector<float>* mass = nullptr;   // [kv heads][length]
  const AttentionView* view = nullptr;  // of layer 0, whose tiles lie in this arena
};

// Output of rows [from, to) of the problem as one batch.
inline std::vector<float> attend(const AttentionProblem& p, const PagedArena& arena,
                                 std::uint32_t from, std::uint32_t to,
                                 const RunOptions& options = {}) {
  std::vector<Position> positions(to - from);
  std::iota(positions.begin(), positions.end(), static_cast<Position>(from));
  const AttentionSequence sequence{arena.table.data(), 0, to - from, options.view};
  std::vector<float> output((to - from) * p.output_row(), -1.0F);
  std::vector<float*> mass(to - from, nullptr);
  AttentionCall call;
  call.shape = p.shape;
  call.layout = arena.layout;
  call.kv = call.arena = arena.bytes.data();
  call.query = p.query.data() + from * p.query_row();
  call.output = output.data();
  call.positions = positions.data();
  call.sequences = &sequence;
  call.block_size = arena.block_size;
  if (options.mass != nullptr) {
    mass[options.mass_row - from] = options.mass->data();
    call.mass = mass.data();
    call.mass_stride = p.length;
  }
  std::vector<RemainderRow> seen;
  for (std::uint32_t t = from; t < to; ++t) arena.remainders.append_seen(t, seen);
  call.remainders = seen.data();
  AttentionPlan plan;
  plan_attention({&sequence, 1}, positions.data(), p.shape, options.thread_count, plan);
  std::vector<std::size_t> order(plan.tasks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (options.task_order_seed != 0) {
    Rng rng(options.task_order_seed);
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.next() % i]);
  }
  AttentionKernel* const kernel = cpu_kernels(options.set).attention(arena.layout.format);
  // What an earlier task has left behind must not matter either.
  std::vector<float> scratch(attention_scratch_floats(p.shape) + 16, std::nanf(""));
  std::fill(plan.partials.begin(), plan.partials.end(), std::nanf(""));
  float* aligned =
      scratch.data() + (64 - reinterpret_cast<std::uintptr_t>(scratch.data()) % 64) / 4 % 16;
  for (const std::size_t i : order) kernel(call, plan, plan.tasks[i], aligned);
  return output;
}

struct Expected {
  double value = 0.0;
  double bound = 0.0;  // of the error of a kernel
};

// Attention of one row and head over the rows as stored, all dimensions, in double precision:
// spread rows stay spread until the end. The bound follows the kernels: sums of FP32 products with
// gamma(n) = n * 2^-24, a relative error of each weight from that of its score, and but for f16 the
// rounding of weights; queries are rounded here as there.
class PlainAttention {
 public:
  PlainAttention(const AttentionProblem& p, const PagedArena& arena, std::uint32_t position,
                 std::uint32_t head)
      : p_(p), arena_(arena), dim_(p.shape.value_dim) {
    const std::uint32_t kv_head = head / (p.shape.head_count / p.shape.kv_head_count);
    const std::uint32_t window = p.shape.window;
    const float* query = &p.query[position * p.query_row() + std::size_t{head} * p.shape.key_dim];
    first_ = window > 0 && position >= window ? position + 1 - window : 0;
    const std::vector<double> rounded = rounded_query(query);
    std::vector<float> key(p.shape.key_dim);
    for (std::uint32_t t = first_; t <= position; ++t) {
      values_.emplace_back(dim_);
      rests_.push_back(rest(t, position, kv_head));
      const auto slot = static_cast<std::size_t>(arena.slot(t));
      load_stored_kv_row(arena.layout, arena.bytes.data(), kv_head, slot, key.data(),
                         values_.back().data());
      value_scales_.push_back(value_scale(kv_head, slot));
      double score = 0.0, size = 0.0;
      for (std::uint32_t d = 0; d < p.shape.key_dim; ++d) {
        score += rounded[d] * key[d];
        size += std::fabs(rounded[d] * key[d]);
      }
      score *= p.shape.scale;
      double error = size * p.shape.scale * (p.shape.key_dim + 8) * kUnit;
      const double cap = p.shape.soft_cap;
      if (cap > 0.0) {
        score = cap * std::tanh(score / cap);  // its slope is at most 1
        error += cap * 12 * kUnit;
      }
      scores_.push_back(score);
      score_error_ = std::max(score_error_, error + 4 * std::fabs(score) * kUnit);
    }
    const double top = *std::max_element(scores_.begin(), scores_.end());
    for (double& score : scores_) total_ += score = std::exp(score - top);
  }

  std::vector<Expected> all() const {
    std::vector<Expected> result(dim_);
    const std::vector<double> lost =
        whole_numbers() ? lost_to_rounding() : std::vector<double>(dim_, 0.0);
    const double splits = 1.0 + static_cast<double>(scores_.size()) / kSplitKeys;
    const double relative = 2 * std::expm1(2 * score_error_) + (280 + 8 * splits) * kUnit;
    for (std::uint32_t d = 0; d < dim_; ++d) {
      double size = 0.0;
      for (std::size_t i = 0; i < scores_.size(); ++i) {
        const double value = values_[i][d], rest = rests_[i][d];
        result[d].value += scores_[i] * (value + rest) / total_;
        size += scores_[i] * (std::fabs(value) + std::fabs(rest)) / total_;
      }
      // Weights below 2^-126 of the largest, and results that are subnormal.
      result[d].bound = relative * size + lost[d] + 1e-37;
    }
    return gathered(result);
  }

  // Softmax weight of a key.
  double weight(std::uint32_t key) const {
    return key < first_ ? 0.0 : scores_[key - first_] / total_;
  }

 private:
  static constexpr double kUnit = 0x1p-24;
  bool whole_numbers() const { return arena_.layout.key_side != KvSide::kF16; }

  // What the row at `position` sees of the value of position t beyond its stored form.
  std::vector<double> rest(std::uint32_t t, std::uint32_t position, std::uint32_t kv_head) const {
    std::vector<double> result(dim_, 0.0);
    if (!keeps_remainders(arena_.layout) || t / kTileTokens != position / kTileTokens)
      return result;
    const std::uint16_t* at =
        arena_.remainders.rows[t].at + std::size_t{kv_head} * arena_.layout.value_columns;
    for (std::uint32_t d = 0; d < dim_; ++d) result[d] = half_value(at[d]);
    return result;
  }

  float value_scale(std::uint32_t kv_head, std::size_t slot) const {
    const KvLayout& layout = arena_.layout;
    if (!whole_numbers()) return 0.0F;
    float scale;
    std::memcpy(&scale,
                arena_.bytes.data() + kv_head * layout.head_bytes + layout.values_at +
                    slot / kTileTokens * layout.value_tile_bytes + layout.value_scales_at +
                    slot % kTileTokens * sizeof(float),
                sizeof(scale));
    return scale;
  }

  // The rows that spread ones stand for, by the definition of the matrix: the sign of an entry is
  // the parity of the bits that row and column share.
  std::vector<Expected> gathered(const std::vector<Expected>& stored) const {
    const std::uint32_t block = arena_.layout.value_block;
    if (block == 1) return stored;
    std::vector<Expected> result(dim_);
    for (std::uint32_t d = 0; d < dim_; ++d) {
      double size = 0.0;
      for (std::uint32_t j = d / block * block; j < (d / block + 1) * block; ++j) {
        const bool negative = std::popcount((d % block) & (j % block)) % 2 == 1;
        result[d].value += (negative ? -stored[j].value : stored[j].value) / block;
        result[d].bound += stored[j].bound / block;
        size += std::fabs(stored[j].value) / block;
      }
      result[d].bound += (std::countr_zero(block) + 1) * kUnit * size;
    }
    return result;
  }

  // Queries that meet whole numbers are spread as the keys and rounded to 8 bits with one scale.
  std::vector<double> rounded_query(const float* query) const {
    std::vector<double> result(query, query + p_.shape.key_dim);
    if (!whole_numbers()) return result;
    const std::uint32_t block = arena_.layout.key_block;
    std::vector<float> row(query, query + p_.shape.key_dim);
    spread(row.data(), p_.shape.key_dim, block);  // in FP32, so that what is rounded is the same
    float most = 0.0F;
    for (const float x : row) most = std::max(most, std::fabs(x));
    const float scale = most / 127.0F;
    for (std::uint32_t d = 0; d < p_.shape.key_dim; ++d) {
      result[d] = scale > 0.0F ? double{std::nearbyint(row[d] / scale)} * scale / block : 0.0;
    }
    return result;
  }

  // Half a unit of the weights of each 64 keys, times the whole numbers of the values.
  std::vector<double> lost_to_rounding() const {
    std::vector<double> lost(dim_, 0.0);
    for (std::size_t begin = 0; begin < scores_.size();) {
      const std::size_t end = std::min(scores_.size(), (begin + first_) / 64 * 64 + 64 - first_);
      double top = 0.0;
      std::vector<double> whole(dim_, 0.0);
      for (std::size_t i = begin; i < end; ++i) {
        const double scale = value_scales_[i];
        top = std::max(top, scores_[i] * scale);
        for (std::uint32_t d = 0; d < dim_ && scale > 0.0; ++d) {
          whole[d] += std::fabs(values_[i][d] / scale);
        }
      }
      // Products with largest weights below 2^-110 are taken for zero.
      const double unit = top / 255 * 0.51 + 0x1p-110;
      for (std::uint32_t d = 0; d < dim_; ++d) lost[d] += unit * whole[d] / total_;
      begin = end;
    }
    return lost;
  }

  const AttentionProblem& p_;
  const PagedArena& arena_;
  std::uint32_t dim_;
  std::uint32_t first_ = 0;
  std::vector<std::vector<float>> values_;  // as stored
  std::vector<std::vector<double>> rests_;
  std::vector<float> value_scales_;
  std::vector<double> scores_;  // then weights, relative to the largest
  double score_error_ = 0.0;
  double total_ = 0.0;
};

}  // namespace refrain::kernels
