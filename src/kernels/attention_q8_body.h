// Reduction of 8-bit keys and values in whole numbers; the including file defines
// REFRAIN_ATTENTION_Q8. Read attention_body.h and kv_layout.h first.
//
// Queries are rounded to 15 bits and weights to 16, each in two bytes, with one scale for a row
// (and split); sums of byte products are exact. So the tiles need no expansion, no order matters,
// and instruction sets differ in nothing but how they compute 2^x.
//
//   score[q][key]  = sum(query bytes * key bytes) * query scale * key scale
//   output[q][d]   = sum(weight bytes * value bytes) * weight scale
//                    a weight is the key's softmax weight times its value's scale
#pragma once

#include "kernels/attention_body.h"

namespace refrain::kernels {
namespace {

constexpr std::uint32_t kByteRows = 3;  // query rows held in registers together
#if defined(REFRAIN_SIMD_AVX512)
constexpr std::uint32_t kByteVectors = 4;  // tiles, or vectors of value columns, for each of them
#else
constexpr std::uint32_t kByteVectors = 1;
#endif
static_assert(kQueryGroup % kByteRows == 0);

// acc + the products of four unsigned bytes of `a` with four signed ones of `b`, lane by lane.
REFRAIN_INLINE IntVec add_byte_products(IntVec acc, IntVec a, IntVec b) {
#if defined(__AVX512VNNI__)
  return {(IntPart)_mm512_dpbusd_epi32((__m512i)acc.p[0], (__m512i)a.p[0], (__m512i)b.p[0])};
#elif defined(REFRAIN_SIMD_AVX2)
  return each_int_part([&](int i) {
    const __m256i x = (__m256i)a.p[i], y = (__m256i)b.p[i];
    const __m256i even = _mm256_madd_epi16(_mm256_and_si256(x, _mm256_set1_epi16(255)),
                                           _mm256_srai_epi16(_mm256_slli_epi16(y, 8), 8));
    const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(x, 8), _mm256_srai_epi16(y, 8));
    return acc.p[i] + (IntPart)_mm256_add_epi32(even, odd);
  });
#else
  return each_int_part([&](int i) {
    const IntPart x = a.p[i], y = b.p[i];
    return acc.p[i] + (x & 255) * (y << 24 >> 24) + ((x >> 8) & 255) * (y << 16 >> 24) +
           ((x >> 16) & 255) * (y << 8 >> 24) + ((x >> 24) & 255) * (y >> 24);
  });
#endif
}

REFRAIN_INLINE Vec to_float(IntVec a) {
  return each_part([&](int i) { return __builtin_convertvector(a.p[i], Part); });
}

// The lowest byte of each lane.
REFRAIN_INLINE void store_low_bytes(std::uint8_t* to, IntVec a) {
#if defined(REFRAIN_SIMD_AVX512)
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8((__m512i)a.p[0]));
#else
  std::int32_t lanes[kLanes];
  store_int(lanes, a);
  for (int i = 0; i < kLanes; ++i) to[i] = static_cast<std::uint8_t>(lanes[i]);
#endif
}

// Scores of `Rows` queries for `Tiles` tiles of keys. queries [2][key_groups][kByteRows] are the
// high and the low bytes of their values.
template <std::uint32_t Rows, std::uint32_t Tiles>
inline void score_byte_tiles(const std::int32_t* queries, const float* factors,
                             const std::int32_t* offsets, const std::byte* const* tiles,
                             std::uint32_t key_groups, float* scores) {
  IntVec high[Rows][Tiles], low[Rows][Tiles];
  REFRAIN_UNROLL
  for (std::uint32_t r = 0; r < Rows; ++r) {
    REFRAIN_UNROLL
    for (std::uint32_t t = 0; t < Tiles; ++t) high[r][t] = low[r][t] = splat_int(0);
  }
  const std::byte* column[Tiles];
  REFRAIN_UNROLL
  for (std::uint32_t t = 0; t < Tiles; ++t) column[t] = tiles[t];
  const std::int32_t* low_queries = queries + std::size_t{key_groups} * kByteRows;
  for (std::size_t g = 0; g < key_groups; ++g) {
    IntVec key[Tiles];
    REFRAIN_UNROLL
    for (std::uint32_t t = 0; t < Tiles; ++t) key[t] = load_int(column[t] + g * 64);
    REFRAIN_UNROLL
    for (std::uint32_t r = 0; r < Rows; ++r) {
      const IntVec q_high = splat_int(queries[g * kByteRows + r]);
      const IntVec q_low = splat_int(low_queries[g * kByteRows + r]);
      REFRAIN_UNROLL
      for (std::uint32_t t = 0; t < Tiles; ++t) {
        high[r][t] = add_byte_products(high[r][t], key[t], q_high);
        low[r][t] = add_byte_products(low[r][t], key[t], q_low);
      }
    }
  }
  REFRAIN_UNROLL
  for (std::uint32_t t = 0; t < Tiles; ++t) {
    const Vec scale = load(reinterpret_cast<const float*>(tiles[t] + std::size_t{key_groups} * 64));
    REFRAIN_UNROLL
    for (std::uint32_t r = 0; r < Rows; ++r) {
      const IntVec sum = shift_left<7>(high[r][t]) + low[r][t] - splat_int(offsets[r]);
      store(scores + r * kSplitKeys + t * kTileTokens, to_float(sum) * (scale * splat(factors[r])));
    }
  }
}

// Weighted sums of the values of tiles [first, end) for `Rows` rows, from dimension d on.
template <std::uint32_t Rows, std::uint32_t Vectors>
inline void sum_byte_values(const std::uint8_t* high_weights, const std::uint8_t* low_weights,
                            const float* factors, const std::byte* const* tiles, TileRange range,
                            std::uint32_t columns, std::uint32_t d, float* records,
                            std::size_t stride) {
  IntVec high[Rows][Vectors], low[Rows][Vectors];
  REFRAIN_UNROLL
  for (std::uint32_t r = 0; r < Rows; ++r) {
    REFRAIN_UNROLL
    for (std::uint32_t c = 0; c < Vectors; ++c) high[r][c] = low[r][c] = splat_int(0);
  }
  for (std::uint32_t t = range.first; t < range.end; ++t) {
    const std::byte* tile = tiles[t] + std::size_t{d} * 4;
    REFRAIN_UNROLL
    for (std::uint32_t g = 0; g < kTileTokens / 4; ++g) {
      IntVec value[Vectors];
      REFRAIN_UNROLL
      for (std::uint32_t c = 0; c < Vectors; ++c) {
        value[c] = load_int(tile + std::size_t{g} * columns * 4 + c * 64);
      }
      REFRAIN_UNROLL
      for (std::uint32_t r = 0; r < Rows; ++r) {
        std::int32_t h, l;
        __builtin_memcpy(&h, high_weights + r * kSplitKeys + t * kTileTokens + g * 4, 4);
        __builtin_memcpy(&l, low_weights + r * kSplitKeys + t * kTileTokens + g * 4, 4);
        const IntVec weight_high = splat_int(h), weight_low = splat_int(l);
        REFRAIN_UNROLL
        for (std::uint32_t c = 0; c < Vectors; ++c) {
          high[r][c] = add_byte_products(high[r][c], weight_high, value[c]);
          low[r][c] = add_byte_products(low[r][c], weight_low, value[c]);
        }
      }
    }
  }
  REFRAIN_UNROLL
  for (std::uint32_t r = 0; r < Rows; ++r) {
    REFRAIN_UNROLL
    for (std::uint32_t c = 0; c < Vectors; ++c) {
      const Vec sum = multiply_add(to_float(high[r][c]), splat(256.0F), to_float(low[r][c]));
      store(records + r * stride + d + c * 16, sum * splat(factors[r]));
    }
  }
}

// Calls function.template operator()<n>() for n = count, from 1 to kByteRows.
template <class Function>
REFRAIN_INLINE void with_byte_rows(std::uint32_t count, Function function) {
  static_assert(kByteRows == 3);
  if (count == 3) {
    function.template operator()<3>();
  } else if (count == 2) {
    function.template operator()<2>();
  } else {
    function.template operator()<1>();
  }
}

class Q8Reduction {
 public:
  Q8Reduction(const AttentionCall& call, float* scratch, const AttentionScratch& parts,
              std::uint32_t query_count)
      : key_dim_(call.shape.key_dim),
        key_groups_(call.layout.key_groups),
        columns_(call.layout.value_columns),
        stride_(columns_ + kRecordExtra),
        scale_(call.shape.scale * kLog2E),
        soft_cap_(call.shape.soft_cap),
        few_(query_count <= 12),
        value_scales_at_(call.layout.value_scales_at),
        queries_(reinterpret_cast<std::int32_t*>(scratch + parts.queries)),
        scores_(scratch + parts.scores),
        records_(scratch + parts.records),
        high_weights_(reinterpret_cast<std::uint8_t*>(scratch + parts.weights)),
        low_weights_(high_weights_ + std::size_t{kByteRows} * kSplitKeys) {
    const std::size_t padded = (query_count + kByteRows - 1) / kByteRows * kByteRows;
    offsets_ = queries_ + padded * key_groups_ * 2;
    factors_ = reinterpret_cast<float*>(offsets_ + padded);
  }

  float* records() const { return records_; }

  // Rounds a query to 15 bits: value = scale * (128 * high + low), both bytes signed.
  void set_query(std::uint32_t q, const float* query) {
    constexpr float kMost = 127.0F * 128.0F;
    const float scale = scale_of(query, key_dim_, kMost);
    std::int32_t* high_at = queries_of(q) + q % kByteRows;
    std::int32_t* low_at = high_at + std::size_t{key_groups_} * kByteRows;
    IntVec sums = splat_int(0);
    for (std::uint32_t d = 0; d < key_dim_; d += kLanes) {
      const IntVec value = rounded_quotient(load_part(query, d, key_dim_), scale, kMost);
      const IntVec high = shift_right<7>(value + splat_int(64));
      std::uint8_t high_bytes[kLanes], low_bytes[kLanes];
      store_low_bytes(high_bytes, high);
      store_low_bytes(low_bytes, value - shift_left<7>(high));
      for (std::uint32_t g = d / 4; g < smaller(key_groups_, d / 4 + 4); ++g) {
        __builtin_memcpy(high_at + g * kByteRows, high_bytes + (g * 4 - d), 4);
        __builtin_memcpy(low_at + g * kByteRows, low_bytes + (g * 4 - d), 4);
      }
      sums = sums + value;
    }
    std::int32_t lanes[kLanes], sum = 0;
    store_int(lanes, sums);
    for (const std::int32_t lane : lanes) sum += lane;
    offsets_[q] = sum * 128;  // keys are stored with 128 added
    factors_[q] = scale * scale_;
  }

  void begin_split(const SplitTiles& tiles) {
    tiles_ = &tiles;
    prefetching_ = few_;
  }

  void reduce(std::uint32_t first, std::uint32_t count, const KeyRange* ranges, float* records) {
    for (std::uint32_t i = 0; i < count; i += kByteRows) {
      const std::uint32_t rows = smaller(kByteRows, count - i);
      const TileRange tiles = tiles_of(ranges + i, rows);
      if (tiles.first >= tiles.end) continue;
      score(first + i, rows, *tiles_, tiles);
      prefetching_ = false;
      float factors[kByteRows];
      for (std::uint32_t r = 0; r < rows; ++r) {
        factors[r] = round_weights(r, ranges[i + r], tiles, records + (i + r) * stride_);
      }
      sum_values(rows, tiles, factors, records + i * stride_);
    }
  }

  // Scores of query row q into the first row of the scores.
  void score_one(std::uint32_t q, const SplitTiles& tiles, TileRange range) {
    for (std::uint32_t t = range.first; t < range.end; ++t) {
      score_byte_tiles<1, 1>(queries_of(q) + q % kByteRows, factors_ + q, offsets_ + q,
                             tiles.keys + t, key_groups_, scores_ + t * kTileTokens);
    }
    if (soft_cap_ > 0.0F) soft_cap_scores(scores_, range, soft_cap_);
  }

 private:
  // Of the block that row q is in.
  std::int32_t* queries_of(std::uint32_t q) const {
    return queries_ + std::size_t{q / kByteRows} * kByteRows * key_groups_ * 2;
  }

  void score(std::uint32_t q, std::uint32_t rows, const SplitTiles& tiles, TileRange range) {
    with_byte_rows(rows, [&]<std::uint32_t Rows>() {
      std::uint32_t t = range.first;
      for (; t + kByteVectors <= range.end; t += kByteVectors) {
        if (prefetching_) prefetch(t);
        score_byte_tiles<Rows, kByteVectors>(queries_of(q), factors_ + q, offsets_ + q,
                                             tiles.keys + t, key_groups_,
                                             scores_ + t * kTileTokens);
      }
      for (; t < range.end; ++t) {
        score_byte_tiles<Rows, 1>(queries_of(q), factors_ + q, offsets_ + q, tiles.keys + t,
                                  key_groups_, scores_ + t * kTileTokens);
      }
    });
    if (soft_cap_ == 0.0F) return;
    for (std::uint32_t r = 0; r < rows; ++r) {
      soft_cap_scores(scores_ + r * kSplitKeys, range, soft_cap_);
    }
  }

  // Turns the scores of a row into weights of 16 bits, zero beside `range`; writes the record's
  // maximum and sum. Returns what one unit of the weights stands for.
  float round_weights(std::uint32_t r, KeyRange range, TileRange tiles, float* record) {
    float* scores = scores_ + r * kSplitKeys;
    std::uint8_t* high = high_weights_ + r * kSplitKeys;
    std::uint8_t* low = low_weights_ + r * kSplitKeys;
    const TileRange own = tiles_of(&range, 1);
    const float maximum = maximum_of(scores, range);
    record[columns_] = maximum;
    record[columns_ + 1] = weigh(scores, range, maximum);
    IntVec top = splat_int(0);
    for (std::uint32_t t = own.first; t < own.end; ++t) {
      const float* scales = reinterpret_cast<const float*>(tiles_->values[t] + value_scales_at_);
      const auto first = static_cast<std::int32_t>(range.low - t * kTileTokens);
      const auto end = static_cast<std::int32_t>(range.high - t * kTileTokens);
      Vec weight = load(scores + t * kTileTokens) * load(scales);
      if (first > 0 || end < 16) weight = select_lanes(first, end, weight, splat(0.0F));
      store(scores + t * kTileTokens, weight);
      top = max(bits_of(absolute(weight)), top);
    }
    const std::int32_t largest_bits = max_lanes(top);
    float largest;
    __builtin_memcpy(&largest, &largest_bits, sizeof(largest));
    const bool finite = largest_bits < 0x7F800000;  // as integers NaN is above infinity
    const Vec to_units = splat(finite && largest > 0x1p-110F ? 65535.0F / largest : 0.0F);
    for (std::uint32_t t = tiles.first; t < tiles.end; ++t) {
      IntVec units = splat_int(0);
      if (t >= own.first && t < own.end) {
        // The rounded number is in the low bits.
        units = bits_of(multiply_add(load(scores + t * kTileTokens), to_units, splat(kRounder)));
      }
      store_low_bytes(low + t * kTileTokens, units);
      store_low_bytes(high + t * kTileTokens, shift_right<8>(units));
    }
    return finite ? largest * (1.0F / 65535.0F) : __builtin_nanf("");
  }

  void sum_values(std::uint32_t rows, TileRange tiles, const float* factors, float* records) {
    with_byte_rows(rows, [&]<std::uint32_t Rows>() {
      std::uint32_t d = 0;
      for (; d + kByteVectors * kLanes <= columns_; d += kByteVectors * kLanes) {
        sum_byte_values<Rows, kByteVectors>(high_weights_, low_weights_, factors, tiles_->values,
                                            tiles, columns_, d, records, stride_);
      }
      for (; d < columns_; d += kLanes) {
        sum_byte_values<Rows, 1>(high_weights_, low_weights_, factors, tiles_->values, tiles,
                                 columns_, d, records, stride_);
      }
    });
  }

  // Values of the tiles at hand and keys of the next ones, before they are needed.
  void prefetch(std::uint32_t first) const {
    for (std::uint32_t t = first; t < first + kByteVectors; ++t) {
      for (std::size_t i = 0; i < value_scales_at_ + 64; i += 64) {
        __builtin_prefetch(tiles_->values[t] + i);
      }
      if (t + kByteVectors >= tiles_->count) continue;
      for (std::size_t i = 0; i < std::size_t{key_groups_} * 64 + 64; i += 64) {
        __builtin_prefetch(tiles_->keys[t + kByteVectors] + i);
      }
    }
  }

  const std::uint32_t key_dim_;
  const std::uint32_t key_groups_;
  const std::uint32_t columns_;
  const std::uint32_t stride_;  // floats of a record
  const float scale_;           // to units of log 2
  const float soft_cap_;
  const bool few_;  // query rows: waiting for memory would be felt
  const std::size_t value_scales_at_;
  std::int32_t* const queries_;  // [blocks][high, low][key_groups][kByteRows] of 4 bytes
  float* const scores_;          // [kByteRows][kSplitKeys]
  float* const records_;
  std::uint8_t* const high_weights_;  // [kByteRows][kSplitKeys]
  std::uint8_t* const low_weights_;
  std::int32_t* offsets_ = nullptr;  // of each query row
  float* factors_ = nullptr;         // of each query row
  const SplitTiles* tiles_ = nullptr;
  bool prefetching_ = false;  // the first query rows of a split bring it into the cache
};

}  // namespace

void REFRAIN_ATTENTION_Q8(const AttentionCall& call, const AttentionPlan& plan,
                          const AttentionTask& task, float* scratch) {
  Task<Q8Reduction>(call, plan, task, scratch).run();
}

}  // namespace refrain::kernels
