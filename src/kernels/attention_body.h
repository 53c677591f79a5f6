// The attention kernel, written once on Vec and compiled once per instruction set; the including
// file defines REFRAIN_ATTENTION_KERNEL. Read paged_attention.h first.
//
// A task holds one split of keys (transposed) and values in scratch as FP32 and passes all its
// query rows over it, four at a time:
//
//   keys    [key_dim][256]     scores[q][key] += query[q][d] * keys[d][key]      d ascending
//   values  [256][value_dim]   split[q][d]    += weight[q][key] * values[key][d] keys ascending
#include <cstddef>
#include <cstdint>

#include "kernels/attention_variants.h"
#include "kernels/simd.h"

namespace refrain::kernels {
namespace {

static_assert(kDimPadding % kLanes == 0 && kSplitKeys % kDimPadding == 0);

constexpr int kColumns = kLanes == 8 ? 2 : 4;  // vectors per query row held in registers
constexpr std::uint32_t kColumnFloats = kColumns * kLanes;
constexpr float kLowest = -3.4028235e38F;

std::uint32_t padded(std::uint32_t dim) {
  return (dim + kDimPadding - 1) / kDimPadding * kDimPadding;
}
std::uint32_t smaller(std::uint32_t a, std::uint32_t b) {
  return a < b ? a : b;
}

class Task {
 public:
  Task(const AttentionCall& call, const AttentionTask& task, float* scratch)
      : call_(call),
        shape_(call.shape),
        task_(task),
        sequence_(call.sequences[task.sequence]),
        group_(shape_.head_count / shape_.kv_head_count),
        value_dim_(padded(shape_.value_dim)) {
    keys_ = scratch;
    values_ = keys_ + std::size_t{padded(shape_.key_dim)} * kSplitKeys;
    scores_ = values_ + std::size_t{value_dim_} * kSplitKeys;
    state_ = scores_ + std::size_t{kQueryBlock} * kSplitKeys;
  }

  void run() {
    const std::uint32_t query_count = task_.row_count * group_;
    for (std::uint32_t q = 0; q < query_count; ++q) *maximum(q) = *sum(q) = 0.0F;
    const std::uint32_t last = position(task_.row_count - 1);
    const std::uint32_t first_key = lowest_key(position(0));
    for (std::uint32_t start = first_key / kSplitKeys * kSplitKeys; start <= last;
         start += kSplitKeys) {
      load_split(start, smaller(kSplitKeys, last + 1 - start));
      for (std::uint32_t q = 0; q < query_count; q += kQueryBlock) {
        switch (smaller(kQueryBlock, query_count - q)) {
          case 4:
            run_queries<4>(q, start);
            break;
          case 3:
            run_queries<3>(q, start);
            break;
          case 2:
            run_queries<2>(q, start);
            break;
          default:
            run_queries<1>(q, start);
            break;
        }
      }
    }
    for (std::uint32_t q = 0; q < query_count; ++q) write_output(q);
  }

 private:
  // State of query q: value_dim_ floats of output, then maximum and sum.
  float* output(std::uint32_t q) const {
    return state_ + std::size_t{q} * (value_dim_ + kDimPadding);
  }
  float* maximum(std::uint32_t q) const { return output(q) + value_dim_; }
  float* sum(std::uint32_t q) const { return output(q) + value_dim_ + 1; }

  std::uint32_t position(std::uint32_t row) const {
    return static_cast<std::uint32_t>(call_.positions[task_.first_row + row]);
  }
  std::uint32_t lowest_key(std::uint32_t at) const {
    return shape_.window > 0 && at >= shape_.window ? at + 1 - shape_.window : 0;
  }
  const float* query(std::uint32_t q) const {
    const std::size_t row = task_.first_row + q / group_;
    const std::size_t head = task_.kv_head * group_ + q % group_;
    return call_.query + (row * shape_.head_count + head) * shape_.key_dim;
  }
  std::size_t slot(std::uint32_t key) const {
    return std::size_t{static_cast<std::uint32_t>(sequence_.blocks[key / call_.block_size])} *
               call_.block_size +
           key % call_.block_size;
  }

  // kLanes halves of one head from dimension d on; zeros beyond the head's dimensions.
  static Vec load_head(const std::uint16_t* head, std::uint32_t d, std::uint32_t dim) {
    if (d + kLanes <= dim) return load_half(head + d);
    std::uint16_t part[kLanes] = {};
    for (std::uint32_t i = d; i < dim; ++i) part[i - d] = head[i];
    return load_half(part);
  }

  // Brings keys [start, start + count) and their values into scratch; the rest of the split up to
  // whole columns is zero.
  void load_split(std::uint32_t start, std::uint32_t count) {
    const std::size_t key_row = std::size_t{shape_.kv_head_count} * shape_.key_dim;
    const std::size_t value_row = std::size_t{shape_.kv_head_count} * shape_.value_dim;
    const std::uint16_t* heads[kLanes];
    const std::uint32_t end = (count + kColumnFloats - 1) / kColumnFloats * kColumnFloats;
    for (std::uint32_t k = 0; k < end; k += kLanes) {
      for (int i = 0; i < kLanes; ++i) {
        const bool valid = k + i < count;
        const std::size_t at = valid ? slot(start + k + i) : 0;
        heads[i] = valid ? call_.keys + at * key_row + std::size_t{task_.kv_head} * shape_.key_dim
                         : nullptr;
        const std::uint16_t* value =
            call_.values + at * value_row + std::size_t{task_.kv_head} * shape_.value_dim;
        for (std::uint32_t d = 0; d < value_dim_; d += kLanes) {
          store(values_ + std::size_t{k + i} * value_dim_ + d,
                valid ? load_head(value, d, shape_.value_dim) : Vec{});
        }
      }
      for (std::uint32_t d = 0; d < shape_.key_dim; d += kLanes) {
        Vec tile[kLanes];
        for (int i = 0; i < kLanes; ++i) {
          tile[i] = heads[i] != nullptr ? load_head(heads[i], d, shape_.key_dim) : Vec{};
        }
        transpose(tile);
        for (int i = 0; i < kLanes; ++i)
          store(keys_ + std::size_t{d + i} * kSplitKeys + k, tile[i]);
      }
    }
  }

  // Scores of `Count` query rows for keys [0, end) of the split.
  template <int Count>
  void score(std::uint32_t first_query, std::uint32_t end) {
    const float* rows[Count];
    for (int r = 0; r < Count; ++r) rows[r] = query(first_query + r);
    for (std::uint32_t k = 0; k < end; k += kColumnFloats) {
      Vec total[Count][kColumns] = {};
      const float* column = keys_ + k;
      for (std::uint32_t d = 0; d < shape_.key_dim; ++d, column += kSplitKeys) {
        for (int r = 0; r < Count; ++r) {
          const Vec q = splat(rows[r][d]);
          for (int c = 0; c < kColumns; ++c) {
            total[r][c] = multiply_add(q, load(column + c * kLanes), total[r][c]);
          }
        }
      }
      for (int r = 0; r < Count; ++r) {
        for (int c = 0; c < kColumns; ++c) {
          store(scores_ + r * kSplitKeys + k + c * kLanes, total[r][c] * shape_.scale);
        }
      }
    }
  }

  // Turns the scores of keys [low, high) into weights e^(score - maximum), all others to zero.
  // Returns the sum of the weights: 16 partial sums by key modulo 16, added in one fixed order.
  static float weigh(float* scores, std::uint32_t low, std::uint32_t high, std::uint32_t end,
                     float* split_maximum) {
    IntVec index;
    for (int i = 0; i < kLanes; ++i) index[i] = i;
    const auto inside = [&](std::uint32_t k) {
      const IntVec key = index + static_cast<std::int32_t>(k);
      return (key >= static_cast<std::int32_t>(low)) & (key < static_cast<std::int32_t>(high));
    };
    Vec top = splat(kLowest);
    for (std::uint32_t k = 0; k < end; k += kLanes) {
      top = max(inside(k) ? load(scores + k) : splat(kLowest), top);
    }
    float maximum = top[0];
    for (int i = 1; i < kLanes; ++i) maximum = top[i] > maximum ? top[i] : maximum;
    constexpr int kParts = 16 / kLanes;
    Vec part[kParts] = {};
    for (std::uint32_t k = 0; k < end; k += 16) {
      for (int j = 0; j < kParts; ++j) {
        float* at = scores + k + j * kLanes;
        const Vec weight = exp_nonpositive(load(at) - maximum);
        const Vec kept = inside(k + j * kLanes) ? weight : Vec{};
        store(at, kept);
        part[j] += kept;
      }
    }
    float sums[16];
    for (int j = 0; j < kParts; ++j) store(sums + j * kLanes, part[j]);
    for (int width = 8; width > 0; width /= 2) {
      for (int i = 0; i < width; ++i) sums[i] += sums[i + width];
    }
    *split_maximum = maximum;
    return sums[0];
  }

  // Adds a split's weighted values to the running output of `Count` rows, for `Columns` vectors
  // from dimension d on. Each row first reduces the split from scratch.
  template <int Count, int Columns>
  void add_values(std::uint32_t first_query, std::uint32_t d, std::uint32_t begin,
                  std::uint32_t end, const float* old_factor, const float* new_factor) {
    Vec total[Count][Columns] = {};
    for (std::uint32_t k = begin; k < end; ++k) {
      const float* value = values_ + std::size_t{k} * value_dim_ + d;
      for (int r = 0; r < Count; ++r) {
        const Vec weight = splat(scores_[r * kSplitKeys + k]);
        for (int c = 0; c < Columns; ++c) {
          total[r][c] = multiply_add(weight, load(value + c * kLanes), total[r][c]);
        }
      }
    }
    for (int r = 0; r < Count; ++r) {
      if (new_factor[r] == 0.0F) continue;  // no key of this split is visible to the row
      float* out = output(first_query + r) + d;
      for (int c = 0; c < Columns; ++c) {
        Vec merged = total[r][c] * new_factor[r];
        // The first split of a row finds no output to scale.
        if (old_factor[r] != 0.0F) {
          merged = multiply_add(load(out + c * kLanes), splat(old_factor[r]), merged);
        }
        store(out + c * kLanes, merged);
      }
    }
  }

  template <int Count>
  void run_queries(std::uint32_t first_query, std::uint32_t start) {
    std::uint32_t low[Count], high[Count];
    std::uint32_t begin = kSplitKeys, end = 0;
    for (int r = 0; r < Count; ++r) {
      const std::uint32_t at = position((first_query + r) / group_);
      const std::uint32_t lowest = lowest_key(at);
      low[r] = lowest > start ? smaller(lowest - start, kSplitKeys) : 0;
      high[r] = at >= start ? smaller(at + 1 - start, kSplitKeys) : 0;
      if (low[r] >= high[r]) continue;
      begin = smaller(begin, low[r]);
      end = high[r] > end ? high[r] : end;
    }
    if (begin >= end) return;
    score<Count>(first_query, end);
    float old_factor[Count], new_factor[Count];
    const std::uint32_t whole = (end + kDimPadding - 1) / kDimPadding * kDimPadding;
    for (int r = 0; r < Count; ++r) {
      float split_maximum = 0.0F;
      const float split_sum =
          weigh(scores_ + r * kSplitKeys, low[r], high[r], whole, &split_maximum);
      merge_factors(first_query + r, low[r] < high[r], split_maximum, split_sum, &old_factor[r],
                    &new_factor[r]);
    }
    std::uint32_t d = 0;
    for (; d + kColumnFloats <= value_dim_; d += kColumnFloats) {
      add_values<Count, kColumns>(first_query, d, begin, end, old_factor, new_factor);
    }
    for (; d < value_dim_; d += kLanes) {
      add_values<Count, 1>(first_query, d, begin, end, old_factor, new_factor);
    }
  }

  // Merges a split into the running maximum and sum; the factors scale output and split. A sum of
  // zero marks a row that has seen no key yet.
  void merge_factors(std::uint32_t q, bool visible, float split_maximum, float split_sum,
                     float* old_factor, float* new_factor) {
    *old_factor = 1.0F;
    *new_factor = 0.0F;
    if (!visible) return;
    float& running_maximum = *maximum(q);
    float& running_sum = *sum(q);
    const bool first = running_sum == 0.0F;
    const float merged = first || split_maximum > running_maximum ? split_maximum : running_maximum;
    *old_factor = first ? 0.0F : exp_nonpositive(splat(running_maximum - merged))[0];
    *new_factor = exp_nonpositive(splat(split_maximum - merged))[0];
    const Vec total =
        multiply_add(splat(running_sum), splat(*old_factor), splat(split_sum) * splat(*new_factor));
    running_sum = total[0];
    running_maximum = merged;
  }

  void write_output(std::uint32_t q) const {
    const std::size_t row = task_.first_row + q / group_;
    const std::size_t head = task_.kv_head * group_ + q % group_;
    float* out = call_.output + (row * shape_.head_count + head) * shape_.value_dim;
    const float inverse = 1.0F / *sum(q);
    for (std::uint32_t d = 0; d < shape_.value_dim; ++d) out[d] = output(q)[d] * inverse;
  }

  const AttentionCall& call_;
  const AttentionShape& shape_;
  const AttentionTask& task_;
  const AttentionSequence& sequence_;
  const std::uint32_t group_;
  const std::uint32_t value_dim_;  // padded
  float* keys_ = nullptr;
  float* values_ = nullptr;
  float* scores_ = nullptr;
  float* state_ = nullptr;
};

}  // namespace

void REFRAIN_ATTENTION_KERNEL(const AttentionCall& call, const AttentionTask& task,
                              float* scratch) {
  Task(call, task, scratch).run();
}

}  // namespace refrain::kernels
