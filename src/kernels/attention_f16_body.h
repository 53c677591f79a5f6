// Reduction of float16 keys and values in FP32; the including file defines
// REFRAIN_VARIANT. Read attention_body.h first.
//
//   score[q][key]  += query[q][d] * key[d][key]        d ascending
//   output[q][d]   += weight[q][key] * value[key][d]   keys ascending, those the row sees alone
//
// Many query rows share one expansion of the split to floats, few read the stored tiles. kBlock
// query rows are held in registers together.
#pragma once

#include "kernels/attention_body.h"

namespace refrain::kernels {
namespace {

#if defined(REFRAIN_SIMD_AVX512)
constexpr std::uint32_t kBlock = 6;
constexpr std::uint32_t kColumns = 4;  // vectors of 16 for each query row
#elif defined(REFRAIN_SIMD_AVX2)
constexpr std::uint32_t kBlock = 6;
constexpr std::uint32_t kColumns = 1;
#else
constexpr std::uint32_t kBlock = 2;
constexpr std::uint32_t kColumns = 1;
#endif
constexpr std::uint32_t kChunkTiles = 4;  // tiles that stay in the first cache for a group
static_assert(kQueryGroup % kBlock == 0 && kSplitTiles % kChunkTiles == 0);

// Stored tiles come from memory, expanded ones from the cache.
template <class T>
constexpr bool kReadsAhead = sizeof(T) == sizeof(std::uint16_t);

// Scores of `Rows` queries for `Tiles` tiles. queries [key_dim][kBlock].
template <std::uint32_t Rows, std::uint32_t Tiles, class T>
inline void score_tiles(const float* queries, const T* const* tiles, std::uint32_t key_dim,
                        float scale, float* scores, ReadAhead& ahead) {
  Vec total[Rows][Tiles];
  REFRAIN_UNROLL
  for (std::uint32_t r = 0; r < Rows; ++r) {
    REFRAIN_UNROLL
    for (std::uint32_t t = 0; t < Tiles; ++t) total[r][t] = splat(0.0F);
  }
  const T* column[Tiles];
  REFRAIN_UNROLL
  for (std::uint32_t t = 0; t < Tiles; ++t) column[t] = tiles[t];
  for (std::size_t d = 0; d < key_dim; ++d) {
    Vec key[Tiles];
    REFRAIN_UNROLL
    for (std::uint32_t t = 0; t < Tiles; ++t) key[t] = load_value(column[t] + d * kTileTokens);
    if constexpr (kReadsAhead<T>) ahead.step<(Tiles + 1) / 2>();
    REFRAIN_UNROLL
    for (std::uint32_t r = 0; r < Rows; ++r) {
      const Vec q = splat(queries[d * kBlock + r]);
      REFRAIN_UNROLL
      for (std::uint32_t t = 0; t < Tiles; ++t)
        total[r][t] = multiply_add_apart(q, key[t], total[r][t]);
    }
  }
  REFRAIN_UNROLL
  for (std::uint32_t r = 0; r < Rows; ++r) {
    REFRAIN_UNROLL
    for (std::uint32_t t = 0; t < Tiles; ++t) {
      store(scores + r * kSplitKeys + t * kTileTokens, total[r][t] * splat(scale));
    }
  }
}

// Adds keys [low, high) of a split, times their weights, to `Rows` records from dimension d on.
template <std::uint32_t Rows, std::uint32_t Columns, class T>
inline void add_values(const float* weights, const T* const* tiles, std::uint32_t columns,
                       std::uint32_t low, std::uint32_t high, float* records, std::size_t stride,
                       ReadAhead& ahead) {
  Vec total[Rows][Columns];
  REFRAIN_UNROLL
  for (std::uint32_t r = 0; r < Rows; ++r) {
    REFRAIN_UNROLL
    for (std::uint32_t c = 0; c < Columns; ++c) total[r][c] = load(records + r * stride + c * 16);
  }
  for (std::uint32_t k = low; k < high;) {
    const T* value = tiles[k / kTileTokens] + std::size_t{k % kTileTokens} * columns;
    const std::uint32_t end = smaller(high, (k / kTileTokens + 1) * kTileTokens);
    for (const float* at = weights + k; k < end; ++k, ++at, value += columns) {
      Vec part[Columns];
      REFRAIN_UNROLL
      for (std::uint32_t c = 0; c < Columns; ++c) part[c] = load_value(value + c * 16);
      if constexpr (kReadsAhead<T>) ahead.step<(Columns + 1) / 2>();
      REFRAIN_UNROLL
      for (std::uint32_t r = 0; r < Rows; ++r) {
        const Vec weight = splat(at[std::size_t{r} * kSplitKeys]);
        REFRAIN_UNROLL
        for (std::uint32_t c = 0; c < Columns; ++c) {
          total[r][c] = multiply_add_apart(weight, part[c], total[r][c]);
        }
      }
    }
  }
  REFRAIN_UNROLL
  for (std::uint32_t r = 0; r < Rows; ++r) {
    REFRAIN_UNROLL
    for (std::uint32_t c = 0; c < Columns; ++c) store(records + r * stride + c * 16, total[r][c]);
  }
}

class F16Reduction {
 public:
  F16Reduction(const AttentionCall& call, float* scratch, const AttentionScratch& parts,
               std::uint32_t query_count)
      : key_dim_(call.shape.key_dim),
        columns_(call.layout.value_columns),
        stride_(columns_ + kRecordExtra),
        scale_(call.shape.scale * kLog2E),
        soft_cap_(call.shape.soft_cap),
        wide_(query_count > kFewQueries),
        queries_(scratch + parts.queries),
        scores_(scratch + parts.scores),
        records_(scratch + parts.records),
        wide_keys_(scratch + parts.keys),
        wide_values_(scratch + parts.values) {}

  float* records() const { return records_; }

  void set_query(std::uint32_t q, const float* query) {
    float* packed = queries_ + std::size_t{q / kBlock} * kBlock * key_dim_ + q % kBlock;
    for (std::uint32_t d = 0; d < key_dim_; ++d) packed[std::size_t{d} * kBlock] = query[d];
  }

  void begin_split(const SplitTiles& tiles, const SplitTiles& following) {
    following_ = following;
    for (std::uint32_t t = 0; t < tiles.count; ++t) {
      keys_[t] = reinterpret_cast<const std::uint16_t*>(tiles.keys[t]);
      values_[t] = reinterpret_cast<const std::uint16_t*>(tiles.values[t]);
      if (wide_) expand(t);
    }
  }

  void reduce(std::uint32_t first, std::uint32_t count, const KeyRange* ranges, float* records) {
    if (wide_) {
      reduce_group(first, count, ranges, records, wide_key_tiles_, wide_value_tiles_);
    } else {
      reduce_group(first, count, ranges, records, keys_, values_);
    }
  }

  // What the state of a row gives is the row itself.
  void finish_output(float* /*row*/) const {}

  // Scores of query row q into the first row of the scores.
  void score_one(std::uint32_t q, const SplitTiles& tiles, TileRange range) {
    const float* query = queries_ + std::size_t{q / kBlock} * kBlock * key_dim_ + q % kBlock;
    for (std::uint32_t t = range.first; t < range.end; ++t) {
      const auto* key = reinterpret_cast<const std::uint16_t*>(tiles.keys[t]);
      score_tiles<1, 1>(query, &key, key_dim_, scale_, scores_ + t * kTileTokens, ahead_);
    }
    if (soft_cap_ > 0.0F) soft_cap_scores(scores_, range, soft_cap_);
  }

 private:
  void expand(std::uint32_t t) {
    float* keys = wide_keys_ + std::size_t{t} * kTileTokens * key_dim_;
    float* values = wide_values_ + std::size_t{t} * kTileTokens * columns_;
    for (std::size_t i = 0; i < std::size_t{kTileTokens} * key_dim_; i += kLanes) {
      store(keys + i, load_half(keys_[t] + i));
    }
    for (std::size_t i = 0; i < std::size_t{kTileTokens} * columns_; i += kLanes) {
      store(values + i, load_half(values_[t] + i));
    }
    wide_key_tiles_[t] = keys;
    wide_value_tiles_[t] = values;
  }

  template <class T>
  void reduce_group(std::uint32_t first, std::uint32_t count, const KeyRange* ranges,
                    float* records, const T* const* keys, const T* const* values) {
    const TileRange all = tiles_of(ranges, count);
    if (!wide_) {
      ahead_.aim(reinterpret_cast<const std::byte* const*>(values_) + all.first,
                 all.end - all.first, std::size_t{columns_} * kTileTokens * 2);
    }
    for (std::uint32_t t = all.first; t < all.end; t = (t / kChunkTiles + 1) * kChunkTiles) {
      const std::uint32_t end = smaller(all.end, (t / kChunkTiles + 1) * kChunkTiles);
      for (std::uint32_t i = 0; i < count; i += kBlock) {
        const std::uint32_t rows = smaller(kBlock, count - i);
        const TileRange own = tiles_of(ranges + i, rows);
        score_chunk(first + i, rows, larger(t, own.first), smaller(end, own.end), keys,
                    scores_ + i * kSplitKeys);
      }
    }
    for (std::uint32_t i = 0; i < count; ++i) finish_scores(ranges[i], i, records + i * stride_);
    ahead_.aim(following_.keys, following_.count, std::size_t{key_dim_} * kTileTokens * 2);
    for (std::uint32_t t = all.first; t < all.end; t = (t / kChunkTiles + 1) * kChunkTiles) {
      const std::uint32_t end = smaller(all.end, (t / kChunkTiles + 1) * kChunkTiles);
      for (std::uint32_t i = 0; i < count; i += kBlock) {
        value_chunk(smaller(kBlock, count - i), ranges + i, {t * kTileTokens, end * kTileTokens},
                    values, scores_ + i * kSplitKeys, records + i * stride_);
      }
    }
  }

  template <class T>
  void score_chunk(std::uint32_t q, std::uint32_t rows, std::uint32_t t, std::uint32_t end,
                   const T* const* keys, float* scores) {
    const float* queries = queries_ + std::size_t{q} * key_dim_;
    with_count<kBlock>(rows, [&]<std::uint32_t Rows>() {
      for (; t + kColumns <= end; t += kColumns) {
        score_tiles<Rows, kColumns>(queries, keys + t, key_dim_, scale_, scores + t * kTileTokens,
                                    ahead_);
      }
      for (; t < end; ++t) {
        score_tiles<Rows, 1>(queries, keys + t, key_dim_, scale_, scores + t * kTileTokens, ahead_);
      }
    });
  }

  void finish_scores(KeyRange range, std::uint32_t i, float* record) {
    if (range.low >= range.high) return;
    float* scores = scores_ + i * kSplitKeys;
    if (soft_cap_ > 0.0F) soft_cap_scores(scores, tiles_of(&range, 1), soft_cap_);
    const float maximum = maximum_of(scores, range);
    record[columns_] = maximum;
    record[columns_ + 1] = weigh(scores, range, maximum);
    for (std::uint32_t d = 0; d < columns_; d += kLanes) store(record + d, splat(0.0F));
  }

  // Keys that all rows see go through together; at its borders each row goes alone, so that a
  // value no row may see (it need not be a number) is never touched.
  template <class T>
  void value_chunk(std::uint32_t rows, const KeyRange* ranges, KeyRange chunk,
                   const T* const* values, const float* weights, float* records) {
    std::uint32_t low = chunk.low, high = chunk.high;
    for (std::uint32_t r = 0; r < rows; ++r) {
      low = larger(low, ranges[r].low);
      high = smaller(high, ranges[r].high);
    }
    low = smaller(low, chunk.high);
    high = larger(high, low);
    for (std::uint32_t r = 0; r < rows; ++r) {
      const KeyRange before{larger(chunk.low, ranges[r].low), smaller(low, ranges[r].high)};
      add_range<1>(weights + r * kSplitKeys, values, before, records + r * stride_);
    }
    with_count<kBlock>(rows, [&]<std::uint32_t Rows>() {
      add_range<Rows>(weights, values, {low, high}, records);
    });
    for (std::uint32_t r = 0; r < rows; ++r) {
      const KeyRange after{larger(high, ranges[r].low), smaller(chunk.high, ranges[r].high)};
      add_range<1>(weights + r * kSplitKeys, values, after, records + r * stride_);
    }
  }

  template <std::uint32_t Rows, class T>
  void add_range(const float* weights, const T* const* values, KeyRange keys, float* records) {
    if (keys.low >= keys.high) return;
    const T* tiles[kSplitTiles];
    std::uint32_t d = 0;
    const auto shift = [&] {
      for (std::uint32_t t = keys.low / kTileTokens; t * kTileTokens < keys.high; ++t) {
        tiles[t] = values[t] + d;
      }
    };
    for (; d + kColumns * kLanes <= columns_; d += kColumns * kLanes) {
      shift();
      add_values<Rows, kColumns>(weights, tiles, columns_, keys.low, keys.high, records + d,
                                 stride_, ahead_);
    }
    for (; d < columns_; d += kLanes) {
      shift();
      add_values<Rows, 1>(weights, tiles, columns_, keys.low, keys.high, records + d, stride_,
                          ahead_);
    }
  }

  const std::uint32_t key_dim_;
  const std::uint32_t columns_;
  const std::uint32_t stride_;  // floats of a record
  const float scale_;           // to units of log 2
  const float soft_cap_;
  const bool wide_;
  float* const queries_;  // [blocks][key_dim][kBlock]
  float* const scores_;   // [kQueryGroup][kSplitKeys]
  float* const records_;
  float* const wide_keys_;
  float* const wide_values_;
  SplitTiles following_;
  ReadAhead ahead_;
  const std::uint16_t* keys_[kSplitTiles];
  const std::uint16_t* values_[kSplitTiles];
  const float* wide_key_tiles_[kSplitTiles];
  const float* wide_value_tiles_[kSplitTiles];
};

}  // namespace

void REFRAIN_VARIANT(run_attention_f16)(const AttentionCall& call, const AttentionPlan& plan,
                                        const AttentionTask& task, float* scratch) {
  Task<F16Reduction>(call, plan, task, scratch).run();
}

}  // namespace refrain::kernels
