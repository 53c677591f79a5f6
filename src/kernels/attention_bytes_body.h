// Reduction of keys and values of 8 bits and less in whole numbers, for the sides that
// attention_q8_body.h and attention_q4_body.h describe. Read attention_body.h and kv_layout.h
// first.
//
// Queries are rounded to 8 bits with one scale for a row, weights to 8 bits with one scale for each
// 64 keys, so that a key of large weight takes nothing from those far away. Sums of byte products
// are exact: the tiles need no expansion, no order within them matters, and all instruction sets
// give the same bits. Queries are spread as the keys are; what comes out of spread values is
// gathered at the end, once for a row.
//
//   score[q][key]  = sum(query bytes * key bytes) * query scale * key scale
//   output[q][d]  += sum over 64 keys(weight bytes * value bytes) * weight scale, keys ascending
//                    a weight is the key's softmax weight times its value's scale
//
// A side says how a line of 64 bytes becomes bytes to multiply:
//
//   Keys     kLineGroups groups of 4 dims in a line, key(line, i) those of the i-th, with kOffset
//            added; add_products(sum, key, query bytes)
//   Values   kLineVectors vectors of 16 columns in a line, value(line, i) those of the i-th;
//            kNarrow: as add_byte_products() has it
#pragma once

#include "kernels/attention_body.h"
#include "kernels/hadamard.h"
#include "kernels/simd_bytes.h"

namespace refrain::kernels {
namespace {

#if defined(REFRAIN_SIMD_AVX512)
constexpr std::uint32_t kByteRows = 6;     // query rows held in registers together
constexpr std::uint32_t kByteVectors = 4;  // tiles, or vectors of value columns, for each of them
#elif defined(REFRAIN_SIMD_AVX2)
constexpr std::uint32_t kByteRows = 4;
constexpr std::uint32_t kByteVectors = 1;
#else
constexpr std::uint32_t kByteRows = 2;
constexpr std::uint32_t kByteVectors = 1;
#endif
constexpr std::uint32_t kScaledTiles = 4;  // share one scale of their weights
constexpr std::uint32_t kWeightScales = kSplitTiles / kScaledTiles;
static_assert(kQueryGroup % kByteRows == 0 && kSplitTiles % kScaledTiles == 0);

// The query rows of a block, rounded.
struct ByteQueries {
  const std::int32_t* bytes;    // [key_groups][kByteRows] of 4 bytes
  const float* factors;         // of each row
  const std::int32_t* offsets;  // of each row
};

// Where keys and values lie within a tile.
struct ByteTiles {
  std::uint32_t key_groups;
  std::uint32_t columns;
  std::size_t key_scales_at;
};

// Scores of `Rows` queries for `Tiles` tiles of keys.
template <class Keys, std::uint32_t Rows, std::uint32_t Tiles>
inline void score_byte_tiles(const ByteQueries& queries, const ByteTiles& shape,
                             const std::byte* const* tiles, float* scores, ReadAhead& ahead) {
  IntVec sum[Rows][Tiles];
  REFRAIN_UNROLL
  for (std::uint32_t r = 0; r < Rows; ++r) {
    REFRAIN_UNROLL
    for (std::uint32_t t = 0; t < Tiles; ++t) sum[r][t] = splat_int(-queries.offsets[r]);
  }
  const std::byte* column[Tiles];
  REFRAIN_UNROLL
  for (std::uint32_t t = 0; t < Tiles; ++t) column[t] = tiles[t];
  for (std::size_t g = 0; g < shape.key_groups; g += Keys::kLineGroups) {
    IntVec line[Tiles];
    REFRAIN_UNROLL
    for (std::uint32_t t = 0; t < Tiles; ++t) {
      line[t] = load_int(column[t] + g / Keys::kLineGroups * 64);
    }
    ahead.step<Tiles>();
    REFRAIN_UNROLL
    for (std::uint32_t i = 0; i < Keys::kLineGroups; ++i) {
      IntVec key[Tiles];
      REFRAIN_UNROLL
      for (std::uint32_t t = 0; t < Tiles; ++t) key[t] = Keys::key(line[t], i);
      REFRAIN_UNROLL
      for (std::uint32_t r = 0; r < Rows; ++r) {
        const IntVec q = splat_int(queries.bytes[(g + i) * kByteRows + r]);
        REFRAIN_UNROLL
        for (std::uint32_t t = 0; t < Tiles; ++t) {
          sum[r][t] = Keys::add_products(sum[r][t], key[t], q);
        }
      }
    }
  }
  REFRAIN_UNROLL
  for (std::uint32_t t = 0; t < Tiles; ++t) {
    const Vec scale = load(reinterpret_cast<const float*>(tiles[t] + shape.key_scales_at));
    REFRAIN_UNROLL
    for (std::uint32_t r = 0; r < Rows; ++r) {
      store(scores + r * kSplitKeys + t * kTileTokens,
            to_float(sum[r][t]) * (scale * splat(queries.factors[r])));
    }
  }
}

// Scores of `rows` queries for the tiles of `range`; not part of each pair of sides.
template <class Keys>
__attribute__((noinline)) void score_byte_rows(std::uint32_t rows, const ByteQueries& queries,
                                               const ByteTiles& shape, const SplitTiles& tiles,
                                               TileRange range, float* scores, ReadAhead& ahead) {
  with_count<kByteRows>(rows, [&]<std::uint32_t Rows>() {
    std::uint32_t t = range.first;
    for (; t + kByteVectors <= range.end; t += kByteVectors) {
      score_byte_tiles<Keys, Rows, kByteVectors>(queries, shape, tiles.keys + t,
                                                 scores + t * kTileTokens, ahead);
    }
    for (; t < range.end; ++t) {
      score_byte_tiles<Keys, Rows, 1>(queries, shape, tiles.keys + t, scores + t * kTileTokens,
                                      ahead);
    }
  });
}

// Weights of a block of rows in whole numbers, and where their sums go.
struct ByteWeights {
  const std::uint8_t* bytes;  // [kByteRows][kSplitKeys]
  const float* factors;       // [kByteRows][kWeightScales]
  float* records;
  std::size_t stride;
};

// Weighted sums of the values of tiles [first, end) for `Rows` rows, from dimension d on: exact
// over the tiles that share a scale, then added to the records.
template <class Values, std::uint32_t Rows, std::uint32_t Vectors>
inline void sum_byte_values(const ByteWeights& weights, const std::byte* const* tiles,
                            TileRange range, std::uint32_t columns, std::uint32_t d,
                            ReadAhead& ahead) {
  // Vectors that begin a line together have the same place in it whatever d is.
  static_assert(Vectors == 1 || Vectors % Values::kLineVectors == 0);
  const std::uint32_t first = d / kLanes % Values::kLineVectors;
  const std::size_t line_at = std::size_t{d / kLanes / Values::kLineVectors} * 64;
  const std::size_t group_bytes = std::size_t{columns} / Values::kLineVectors * 4;
  for (std::uint32_t begin = range.first; begin < range.end;) {
    const std::uint32_t scale = begin / kScaledTiles;
    const std::uint32_t end = smaller(range.end, (scale + 1) * kScaledTiles);
    IntVec sum[Rows][Vectors];
    REFRAIN_UNROLL
    for (std::uint32_t r = 0; r < Rows; ++r) {
      REFRAIN_UNROLL
      for (std::uint32_t c = 0; c < Vectors; ++c) sum[r][c] = splat_int(0);
    }
    for (std::uint32_t t = begin; t < end; ++t) {
      const std::byte* tile = tiles[t] + line_at;
      const std::uint8_t* at = weights.bytes + std::size_t{t} * kTileTokens;
      REFRAIN_UNROLL
      for (std::uint32_t g = 0; g < kTileTokens / 4; ++g) {
        IntVec value[Vectors];
        REFRAIN_UNROLL
        for (std::uint32_t c = 0; c < Vectors; ++c) {
          const IntVec line = load_int(tile + g * group_bytes + c / Values::kLineVectors * 64);
          value[c] = Values::value(line, Vectors == 1 ? first : c % Values::kLineVectors);
        }
        if (Vectors > 1 || first == 0) {
          ahead.step<(Vectors > 1 ? Vectors / Values::kLineVectors : 1)>();
        }
        REFRAIN_UNROLL
        for (std::uint32_t r = 0; r < Rows; ++r) {
          std::int32_t four;
          __builtin_memcpy(&four, at + std::size_t{r} * kSplitKeys + g * 4, 4);
          const IntVec weight = splat_int(four);
          REFRAIN_UNROLL
          for (std::uint32_t c = 0; c < Vectors; ++c) {
            sum[r][c] = add_byte_products<Values::kNarrow>(sum[r][c], weight, value[c]);
          }
        }
      }
    }
    REFRAIN_UNROLL
    for (std::uint32_t r = 0; r < Rows; ++r) {
      const Vec factor = splat(weights.factors[r * kWeightScales + scale]);
      REFRAIN_UNROLL
      for (std::uint32_t c = 0; c < Vectors; ++c) {
        float* record = weights.records + r * weights.stride + d + c * 16;
        const Vec part = to_float(sum[r][c]);
        store(record,
              begin == range.first ? part * factor : multiply_add(part, factor, load(record)));
      }
    }
    begin = end;
  }
}

// All columns; not part of each pair of sides.
template <class Values>
__attribute__((noinline)) void sum_byte_rows(std::uint32_t rows, const ByteWeights& weights,
                                             const SplitTiles& tiles, TileRange range,
                                             std::uint32_t columns, ReadAhead& ahead) {
  with_count<kByteRows>(rows, [&]<std::uint32_t Rows>() {
    std::uint32_t d = 0;
    for (; d + kByteVectors * kLanes <= columns; d += kByteVectors * kLanes) {
      sum_byte_values<Values, Rows, kByteVectors>(weights, tiles.values, range, columns, d, ahead);
    }
    for (; d < columns; d += kLanes) {
      sum_byte_values<Values, Rows, 1>(weights, tiles.values, range, columns, d, ahead);
    }
  });
}

template <class Keys, class Values>
class ByteReduction {
 public:
  ByteReduction(const AttentionCall& call, float* scratch, const AttentionScratch& parts,
                std::uint32_t query_count)
      : layout_(call.layout),
        tile_shape_{layout_.key_groups, layout_.value_columns, layout_.key_scales_at},
        columns_(call.layout.value_columns),
        stride_(columns_ + kRecordExtra),
        scale_(call.shape.scale * kLog2E),
        soft_cap_(call.shape.soft_cap),
        few_(query_count <= kFewQueries),
        queries_(reinterpret_cast<std::int32_t*>(scratch + parts.queries)),
        scores_(scratch + parts.scores),
        records_(scratch + parts.records),
        weights_(reinterpret_cast<std::uint8_t*>(scratch + parts.weights)) {
    const std::size_t padded = (query_count + kByteRows - 1) / kByteRows * kByteRows;
    offsets_ = queries_ + padded * layout_.key_groups;
    factors_ = reinterpret_cast<float*>(offsets_ + padded);
  }

  float* records() const { return records_; }

  // Spreads a query as the keys are, and rounds it to 8 bits.
  void set_query(std::uint32_t q, const float* query) {
    const std::uint32_t dim = layout_.key_dim;
    float* row = scores_;  // not in use yet
    __builtin_memcpy(row, query, dim * sizeof(float));
    spread(row, dim, layout_.key_block);
    const float scale = scale_of(row, dim, 127.0F);
    std::int32_t* at = queries_of(q) + q % kByteRows;
    IntVec sums = splat_int(0);
    for (std::uint32_t d = 0; d < dim; d += kLanes) {
      const IntVec value = rounded_quotient(load_part(row, d, dim), scale, 127.0F);
      std::uint8_t bytes[kLanes];
      store_low_bytes(bytes, value);
      for (std::uint32_t g = d / 4; g < smaller(layout_.key_groups, d / 4 + 4); ++g) {
        __builtin_memcpy(at + g * kByteRows, bytes + (g * 4 - d), 4);
      }
      sums = sums + value;
    }
    offsets_[q] = sum_lanes(sums) * Keys::kOffset;
    factors_[q] = scale * scale_ / static_cast<float>(layout_.key_block);
  }

  // Gathers what came out of spread values.
  void finish_output(float* row) const { unspread(row, layout_.value_dim, layout_.value_block); }

  void begin_split(const SplitTiles& tiles, const SplitTiles& following) {
    tiles_ = &tiles;
    following_ = following;
  }

  void reduce(std::uint32_t first, std::uint32_t count, const KeyRange* ranges, float* records) {
    for (std::uint32_t i = 0; i < count; i += kByteRows) {
      const std::uint32_t rows = smaller(kByteRows, count - i);
      const TileRange tiles = tiles_of(ranges + i, rows);
      if (tiles.first >= tiles.end) continue;
      if (few_ && i == 0) {
        ahead_.aim(tiles_->values + tiles.first, tiles.end - tiles.first, layout_.value_tile_bytes);
      }
      score(first + i, rows, tiles);
      float factors[kByteRows * kWeightScales];
      for (std::uint32_t r = 0; r < rows; ++r) {
        round_weights(r, ranges[i + r], tiles, records + (i + r) * stride_,
                      factors + r * kWeightScales);
      }
      if (i == 0) {
        ahead_.aim(following_.keys, following_.count, layout_.key_tile_bytes);
      }
      const ByteWeights weights{weights_, factors, records + i * stride_, stride_};
      sum_byte_rows<Values>(rows, weights, *tiles_, tiles, columns_, ahead_);
    }
  }

  // Scores of query row q into the first row of the scores.
  void score_one(std::uint32_t q, const SplitTiles& tiles, TileRange range) {
    const ByteQueries query{queries_of(q) + q % kByteRows, factors_ + q, offsets_ + q};
    score_byte_rows<Keys>(1, query, tile_shape_, tiles, range, scores_, ahead_);
    if (soft_cap_ > 0.0F) soft_cap_scores(scores_, range, soft_cap_);
  }

 private:
  // Of the block that row q is in.
  std::int32_t* queries_of(std::uint32_t q) const {
    return queries_ + std::size_t{q / kByteRows} * kByteRows * layout_.key_groups;
  }

  void score(std::uint32_t q, std::uint32_t rows, TileRange range) {
    const ByteQueries queries{queries_of(q), factors_ + q, offsets_ + q};
    score_byte_rows<Keys>(rows, queries, tile_shape_, *tiles_, range, scores_, ahead_);
    if (soft_cap_ == 0.0F) return;
    for (std::uint32_t r = 0; r < rows; ++r) {
      soft_cap_scores(scores_ + r * kSplitKeys, range, soft_cap_);
    }
  }

  // Turns the scores of a row into weights of 8 bits, zero beside `range`; writes the record's
  // maximum and sum, and what one unit of the weights stands for, scale by scale.
  void round_weights(std::uint32_t r, KeyRange range, TileRange tiles, float* record,
                     float* factors) {
    const float* scores = scores_ + r * kSplitKeys;
    const float maximum = maximum_of(scores, range);
    const Vec top = splat(maximum);
    Vec sum = splat(0.0F);
    for (std::uint32_t begin = tiles.first; begin < tiles.end;) {
      const std::uint32_t scale = begin / kScaledTiles;
      const std::uint32_t end = smaller(tiles.end, (scale + 1) * kScaledTiles);
      float weights[kScaledTiles * kTileTokens];
      IntVec largest = splat_int(0);
      for (std::uint32_t t = begin; t < end; ++t) {
        const auto low = static_cast<std::int32_t>(range.low - t * kTileTokens);
        const auto high = static_cast<std::int32_t>(range.high - t * kTileTokens);
        const float* scales =
            reinterpret_cast<const float*>(tiles_->values[t] + layout_.value_scales_at);
        Vec weight = exp2_nonpositive(load(scores + t * kTileTokens) - top);
        Vec scaled = weight * load(scales);
        if (low > 0 || high < 16) {
          weight = select_lanes(low, high, weight, splat(0.0F));
          scaled = select_lanes(low, high, scaled, splat(0.0F));
        }
        sum = sum + weight;
        store(weights + (t - begin) * kTileTokens, scaled);
        largest = max(bits_of(absolute(scaled)), largest);
      }
      factors[scale] =
          round_scaled(weights, begin, end, max_lanes(largest), weights_ + r * kSplitKeys);
      begin = end;
    }
    record[columns_] = maximum;
    record[columns_ + 1] = sum_lanes(sum);
  }

  // Weights of tiles [begin, end) in units of the largest / 255. Returns the unit.
  static float round_scaled(const float* weights, std::uint32_t begin, std::uint32_t end,
                            std::int32_t largest_bits, std::uint8_t* bytes) {
    float largest;
    __builtin_memcpy(&largest, &largest_bits, sizeof(largest));
    const bool finite = largest_bits < 0x7F800000;  // as integers NaN is above infinity
    const Vec to_units = splat(finite && largest > 0x1p-110F ? 255.0F / largest : 0.0F);
    for (std::uint32_t t = begin; t < end; ++t) {
      const Vec weight = load(weights + (t - begin) * kTileTokens);
      // The rounded number is in the low bits.
      store_low_bytes(bytes + t * kTileTokens,
                      bits_of(multiply_add(weight, to_units, splat(kRounder))));
    }
    return finite ? largest * (1.0F / 255.0F) : __builtin_nanf("");
  }

  const KvLayout& layout_;
  const ByteTiles tile_shape_;
  const std::uint32_t columns_;
  const std::uint32_t stride_;  // floats of a record
  const float scale_;           // to units of log 2
  const float soft_cap_;
  const bool few_;               // query rows
  std::int32_t* const queries_;  // [blocks][key_groups][kByteRows] of 4 bytes
  float* const scores_;          // [kByteRows][kSplitKeys]
  float* const records_;
  std::uint8_t* const weights_;      // [kByteRows][kSplitKeys]
  std::int32_t* offsets_ = nullptr;  // of each query row
  float* factors_ = nullptr;         // of each query row
  const SplitTiles* tiles_ = nullptr;
  SplitTiles following_;
  ReadAhead ahead_;
};

}  // namespace
}  // namespace refrain::kernels
