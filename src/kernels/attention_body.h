// The frame of the attention kernels, compiled once per instruction set: which splits a task has,
// how the splits of a row are merged, softmax weights. `Reduction` (attention_f16_body.h,
// attention_bytes_body.h) turns one split and some query rows into records. Read paged_attention.h
// first.
//
//   record or state of a query row:  value_columns floats of output | maximum | sum
//
// Scores are kept in units of log 2, so that weights are 2^(score - maximum).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention_scratch.h"
#include "kernels/cpu_kernel_variants.h"
#include "kernels/simd_math.h"

namespace refrain::kernels {
namespace {

constexpr float kLowest = -3.4028235e38F;
constexpr std::uint32_t kSplitTiles = kSplitKeys / kTileTokens;
constexpr std::uint32_t kFewQueries = 12;  // up to here memory is waited for rather than arithmetic

REFRAIN_INLINE std::uint32_t smaller(std::uint32_t a, std::uint32_t b) {
  return a < b ? a : b;
}
REFRAIN_INLINE std::uint32_t larger(std::uint32_t a, std::uint32_t b) {
  return a > b ? a : b;
}

// Keys [low, high) of a split, those that a row sees; empty if low >= high.
struct KeyRange {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
};

// Tiles [first, end) of a split.
struct TileRange {
  std::uint32_t first = 0;
  std::uint32_t end = 0;
};

// The split at hand: where its tiles lie.
struct SplitTiles {
  const std::byte* keys[kSplitTiles];
  const std::byte* values[kSplitTiles];
  std::uint32_t count = 0;
};

// Names tiles that will be needed soon to the second cache, a few lines between each two steps of
// the work at hand, so that memory is never idle. For few query rows, whose work is short.
class ReadAhead {
 public:
  void aim(const std::byte* const* tiles, std::uint32_t count, std::size_t tile_bytes) {
    tiles_ = tiles;
    left_ = count;
    bytes_ = tile_bytes;
    at_ = 0;
  }
  template <std::uint32_t Lines>
  REFRAIN_INLINE void step() {
    if (left_ == 0) return;
    REFRAIN_UNROLL
    for (std::uint32_t i = 0; i < Lines; ++i) __builtin_prefetch(*tiles_ + at_ + i * 64, 0, 2);
    at_ += Lines * 64;
    if (at_ < bytes_) return;
    at_ = 0;
    ++tiles_;
    --left_;
  }

 private:
  const std::byte* const* tiles_ = nullptr;
  std::uint32_t left_ = 0;
  std::size_t bytes_ = 0;
  std::size_t at_ = 0;
};

// All tiles that some of the rows see.
REFRAIN_INLINE TileRange tiles_of(const KeyRange* ranges, std::uint32_t count) {
  std::uint32_t low = kSplitKeys, high = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (ranges[i].low >= ranges[i].high) continue;
    low = smaller(low, ranges[i].low);
    high = larger(high, ranges[i].high);
  }
  if (low >= high) return {0, 0};
  return {low / kTileTokens, (high + kTileTokens - 1) / kTileTokens};
}

// Scores are in units of log 2, and so is the cap then.
inline void soft_cap_scores(float* scores, TileRange tiles, float cap) {
  for (std::uint32_t t = tiles.first; t < tiles.end; ++t) {
    store(scores + t * kTileTokens, soft_capped(load(scores + t * kTileTokens), cap * kLog2E));
  }
}

// Largest score of the range; NaN is passed over.
inline float maximum_of(const float* scores, KeyRange range) {
  Vec top = splat(kLowest);
  for (std::uint32_t k = range.low / 16 * 16; k < range.high; k += 16) {
    const auto low = static_cast<std::int32_t>(range.low - k);
    const auto high = static_cast<std::int32_t>(range.high - k);
    Vec score = load(scores + k);
    if (low > 0 || high < 16) score = select_lanes(low, high, score, splat(kLowest));
    top = max(score, top);
  }
  return max_lanes(top);
}

// Turns the scores of the range into weights 2^(score - maximum), those beside it in the same
// tiles to zero. Returns the sum: 16 partial sums by key modulo 16, added in one fixed order.
inline float weigh(float* scores, KeyRange range, float maximum) {
  const Vec top = splat(maximum);
  Vec sum = splat(0.0F);
  for (std::uint32_t k = range.low / 16 * 16; k < range.high; k += 16) {
    const auto low = static_cast<std::int32_t>(range.low - k);
    const auto high = static_cast<std::int32_t>(range.high - k);
    Vec weight = exp2_nonpositive(load(scores + k) - top);
    if (low > 0 || high < 16) weight = select_lanes(low, high, weight, splat(0.0F));
    store(scores + k, weight);
    sum = sum + weight;
  }
  return sum_lanes(sum);
}

// Sets a to 2^a and b to 2^b.
REFRAIN_INLINE void exp2_of_both(float& a, float& b) {
  float lanes[kLanes];
  store(lanes, exp2_nonpositive(select_lanes(0, 8, splat(a), splat(b))));
  a = lanes[0];
  b = lanes[8];
}

// Calls function.template operator()<n>() for n = count, from 1 to Max.
template <std::uint32_t Max, class Function>
REFRAIN_INLINE void with_count(std::uint32_t count, Function function) {
  if constexpr (Max > 1) {
    if (count < Max) {
      with_count<Max - 1>(count, function);
      return;
    }
  }
  function.template operator()<Max>();
}

template <class Reduction>
class Task {
 public:
  Task(const AttentionCall& call, const AttentionPlan& plan, const AttentionTask& task,
       float* scratch)
      : call_(call),
        shape_(call.shape),
        plan_(plan),
        task_(task),
        sequence_(call.sequences[task.sequence]),
        chosen_(chosen_tiles()),
        more_rows_(rows_beyond_table()),
        group_(shape_.head_count / shape_.kv_head_count),
        query_count_(task.row_count * group_),
        columns_(call.layout.value_columns),
        stride_(columns_ + kRecordExtra),
        parts_(attention_scratch(call.shape)),
        states_(scratch + parts_.states),
        scores_(scratch + parts_.scores),
        reduction_(call, scratch, parts_, query_count_) {}

  void run() {
    for (std::uint32_t q = 0; q < query_count_; ++q) reduction_.set_query(q, query(q));
    const std::uint32_t last = position(task_.row_count - 1);
    const std::uint32_t begin = larger(task_.first_split, lowest_key(position(0)) / kSplitKeys);
    const std::uint32_t end = smaller(task_.end_split, last / kSplitKeys + 1);
    const bool shared = task_.share != kNoShare;
    if (!shared) clear_states();
    for (std::uint32_t split = begin; split < end; ++split) run_split(split, last, shared);
    if (shared) {
      if (!end_shared_task(plan_, task_.share)) return;
      merge_shared();
    }
    for (std::uint32_t q = 0; q < query_count_; ++q) {
      if (keeps_remainders(call_.layout)) add_remainders(q);
      write_output(q);
    }
    if (call_.mass == nullptr) return;
    for (std::uint32_t row = 0; row < task_.row_count; ++row) {
      if (call_.mass[task_.first_row + row] != nullptr) write_mass(row);
    }
  }

 private:
  float* state(std::uint32_t q) const { return states_ + std::size_t{q} * stride_; }
  float& maximum(float* record) const { return record[columns_]; }
  float& sum(float* record) const { return record[columns_ + 1]; }

  std::uint32_t position(std::uint32_t row) const {
    return static_cast<std::uint32_t>(call_.positions[task_.first_row + row]) + more_rows_;
  }
  AttentionView::Head chosen_tiles() const {
    if (sequence_.view == nullptr) return {};
    return sequence_.view->heads[call_.layer * shape_.kv_head_count + task_.kv_head];
  }
  std::uint32_t rows_beyond_table() const {
    const AttentionView* view = sequence_.view;
    return view == nullptr ? 0 : chosen_.tile_count * kTileTokens - (view->end - view->begin);
  }
  std::uint32_t lowest_key(std::uint32_t at) const {
    return shape_.window > 0 && at >= shape_.window ? at + 1 - shape_.window : 0;
  }
  std::size_t head(std::uint32_t q) const { return task_.kv_head * group_ + q % group_; }
  const float* query(std::uint32_t q) const {
    const std::size_t row = task_.first_row + q / group_;
    return call_.query + (row * shape_.head_count + head(q)) * shape_.key_dim;
  }
  // What query row q sees of the split that starts at key `start`.
  KeyRange range(std::uint32_t q, std::uint32_t start) const {
    const std::uint32_t at = position(q / group_), lowest = lowest_key(at);
    const std::uint32_t high = at >= start ? smaller(at + 1 - start, kSplitKeys) : 0;
    const std::uint32_t low = lowest > start ? smaller(lowest - start, kSplitKeys) : 0;
    return low < high ? KeyRange{low, high} : KeyRange{0, 0};
  }

  // Where the tiles of keys [start, last] lie, those of one split.
  SplitTiles find_tiles(std::uint32_t start, std::uint32_t last) const {
    SplitTiles tiles;
    const std::byte* head_at = call_.kv + task_.kv_head * call_.layout.head_bytes;
    const std::uint32_t end = smaller(last + 1, start + kSplitKeys);
    for (std::uint32_t key = start; key < end; key += kTileTokens, ++tiles.count) {
      if (sequence_.view != nullptr && find_chosen(key, tiles)) continue;
      const std::uint32_t row = row_of(key);
      const auto block = static_cast<std::uint32_t>(sequence_.blocks[row / call_.block_size]);
      const std::size_t tile =
          (std::size_t{block} * call_.block_size + row % call_.block_size) / kTileTokens;
      tiles.keys[tiles.count] = head_at + tile * call_.layout.key_tile_bytes;
      tiles.values[tiles.count] =
          head_at + call_.layout.values_at + tile * call_.layout.value_tile_bytes;
    }
    return tiles;
  }
  // Of the table.
  std::uint32_t row_of(std::uint32_t key) const {
    return sequence_.view == nullptr || key < sequence_.view->begin ? key : key - more_rows_;
  }
  // The next tile, if it is one of a view's.
  bool find_chosen(std::uint32_t key, SplitTiles& tiles) const {
    if (key < sequence_.view->begin) return false;
    const std::uint32_t index = (key - sequence_.view->begin) / kTileTokens;
    if (index >= chosen_.tile_count) return false;
    tiles.keys[tiles.count] = call_.arena + chosen_.tiles[index].keys;
    tiles.values[tiles.count] = call_.arena + chosen_.tiles[index].values;
    return true;
  }

  void clear_states() {
    for (std::uint32_t q = 0; q < query_count_; ++q) sum(state(q)) = 0.0F;
  }

  // Reduces one split for all query rows; a shared task keeps the records for whoever ends last.
  void run_split(std::uint32_t split, std::uint32_t last, bool shared) {
    const std::uint32_t start = split * kSplitKeys;
    const SplitTiles tiles = find_tiles(start, last);
    const bool few = query_count_ <= kFewQueries && start + kSplitKeys <= last;
    reduction_.begin_split(tiles, few ? find_tiles(start + kSplitKeys, last) : SplitTiles{});
    for (std::uint32_t first = 0; first < query_count_; first += kQueryGroup) {
      const std::uint32_t count = smaller(kQueryGroup, query_count_ - first);
      KeyRange ranges[kQueryGroup];
      for (std::uint32_t i = 0; i < count; ++i) ranges[i] = range(first + i, start);
      float* records = shared ? shared_record(split, first) : reduction_.records();
      reduction_.reduce(first, count, ranges, records);
      if (shared) continue;
      for (std::uint32_t i = 0; i < count; ++i) {
        if (ranges[i].low < ranges[i].high) merge(state(first + i), records + i * stride_);
      }
    }
  }

  float* shared_record(std::uint32_t split, std::uint32_t q) const {
    return plan_.partials.data() + plan_.shares[task_.share].partials_at +
           (std::size_t{split} * query_count_ + q) * stride_;
  }

  void merge_shared() {
    clear_states();
    for (std::uint32_t q = 0; q < query_count_; ++q) {
      const std::uint32_t at = position(q / group_);
      for (std::uint32_t split = lowest_key(at) / kSplitKeys; split <= at / kSplitKeys; ++split) {
        merge(state(q), shared_record(split, q));
      }
    }
  }

  // Merges a split's record into the state. A sum of zero marks a row that has seen no key yet.
  void merge(float* state, float* record) const {
    const bool first = sum(state) == 0.0F;
    const float larger_maximum =
        first || maximum(record) > maximum(state) ? maximum(record) : maximum(state);
    float new_factor = maximum(record) - larger_maximum;
    float old_factor = first ? 0.0F : maximum(state) - larger_maximum;
    exp2_of_both(new_factor, old_factor);
    for (std::uint32_t d = 0; d < columns_; d += kLanes) {
      Vec merged = load(record + d) * splat(new_factor);
      if (!first) merged = multiply_add(load(state + d), splat(old_factor), merged);
      store(state + d, merged);
    }
    float total = sum(record) * new_factor;
    if (!first) total += sum(state) * old_factor;
    sum(state) = total;
    maximum(state) = larger_maximum;
  }

  // What the values of the row's own tile have beyond their stored form, keys ascending. After all
  // splits, so that it is added the same way wherever these were reduced.
  void add_remainders(std::uint32_t q) {
    const RemainderRow* rows =
        call_.remainders + std::size_t{task_.first_row + q / group_} * kTileTokens;
    const std::uint32_t at = position(q / group_), start = at / kTileTokens * kTileTokens;
    const std::uint32_t lowest = lowest_key(at);
    const KeyRange keys{lowest > start ? lowest - start : 0, at + 1 - start};
    const SplitTiles tile = find_tiles(start, at);
    reduction_.score_one(q, tile, {0, 1});
    weigh(scores_, keys, maximum(state(q)));
    for (std::uint32_t k = keys.low; k < keys.high; ++k) {
      if (rows[k].at == nullptr) continue;
      const std::uint16_t* rest = rows[k].of(call_.layer) + task_.kv_head * columns_;
      const Vec weight = splat(scores_[k]);
      for (std::uint32_t d = 0; d < columns_; d += kLanes) {
        store(state(q) + d, multiply_add(load_half(rest + d), weight, load(state(q) + d)));
      }
    }
  }

  void write_output(std::uint32_t q) const {
    const std::size_t row = task_.first_row + q / group_;
    float* out = call_.output + (row * shape_.head_count + head(q)) * shape_.value_dim;
    const float inverse = 1.0F / sum(state(q));
    for (std::uint32_t d = 0; d < shape_.value_dim; ++d) out[d] = state(q)[d] * inverse;
    reduction_.finish_output(out);
  }

  // Computes the scores of one row again and adds up the final weights of its query heads.
  void write_mass(std::uint32_t row) {
    const std::uint32_t at = position(row);
    float* mass = call_.mass[task_.first_row + row] + task_.kv_head * call_.mass_stride;
    for (std::uint32_t key = 0; key <= at; ++key) mass[key] = 0.0F;
    for (std::uint32_t split = lowest_key(at) / kSplitKeys; split <= at / kSplitKeys; ++split) {
      const std::uint32_t start = split * kSplitKeys;
      const SplitTiles tiles = find_tiles(start, at);
      for (std::uint32_t q = row * group_; q < (row + 1) * group_; ++q) {
        const KeyRange keys = range(q, start);
        reduction_.score_one(q, tiles, tiles_of(&keys, 1));
        weigh(scores_, keys, maximum(state(q)));
        const float inverse = 1.0F / sum(state(q));
        for (std::uint32_t k = keys.low; k < keys.high; ++k) {
          mass[start + k] += scores_[k] * inverse;
        }
      }
    }
  }

  const AttentionCall& call_;
  const AttentionShape& shape_;
  const AttentionPlan& plan_;
  const AttentionTask& task_;
  const AttentionSequence& sequence_;
  const AttentionView::Head chosen_;  // of a view
  const std::uint32_t more_rows_;     // that this head sees beyond those of the table, modulo 2^32
  const std::uint32_t group_;         // query heads of a KV head
  const std::uint32_t query_count_;   // rows x group
  const std::uint32_t columns_;
  const std::uint32_t stride_;  // floats of a record
  const AttentionScratch parts_;
  float* const states_;
  float* const scores_;
  Reduction reduction_;
};

}  // namespace
}  // namespace refrain::kernels
