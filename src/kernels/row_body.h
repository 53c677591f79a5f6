// The operations of row_ops.h, written once on simd.h and compiled once per instruction set.
#pragma once

#include "kernels/linear.h"
#include "kernels/row_ops.h"
#include "kernels/simd_math.h"

namespace refrain::kernels {
namespace {

// In four sums, so that no step waits for the one before.
float sum_of_squares(const float* x, std::uint32_t dim) {
  constexpr std::uint32_t kSums = 4;
  Vec total[kSums] = {splat(0.0F), splat(0.0F), splat(0.0F), splat(0.0F)};
  std::uint32_t i = 0;
  for (; i + kSums * kLanes <= dim; i += kSums * kLanes) {
    REFRAIN_UNROLL
    for (std::uint32_t s = 0; s < kSums; ++s) {
      const Vec v = load(x + i + s * kLanes);
      total[s] = multiply_add(v, v, total[s]);
    }
  }
  for (; i < dim; i += kLanes) {
    const Vec v = load_part(x, i, dim);
    total[0] = multiply_add(v, v, total[0]);
  }
  return sum_lanes((total[0] + total[1]) + (total[2] + total[3]));
}

void rms_norm(const float* x, const float* weight, std::uint32_t dim, float epsilon, float* y) {
  const float mean = sum_of_squares(x, dim) / static_cast<float>(dim);
  const Vec factor = splat(1.0F / __builtin_sqrtf(mean + epsilon));
  for (std::uint32_t i = 0; i < dim; i += kLanes) {
    const Vec v = load_part(x, i, dim) * factor;
    store_part(y, i, dim, v * load_part(weight, i, dim));
  }
}

// ---- quantization

constexpr float kTiny = 1e-35F;  // below, the inverse scale would overflow

// -1 in the lanes of `x` whose magnitude is at most `limit`, 0 in the others and for NaN.
REFRAIN_INLINE IntVec lanes_within(Vec x, Vec limit) {
  const Vec magnitude = absolute(x);
  return each_int_part([&](int i) { return (IntPart)(magnitude.p[i] <= limit.p[i]); });
}

// The largest magnitude among the values that `chosen` names; NaN if one is not finite.
REFRAIN_INLINE float largest_of(const float* x, std::uint32_t chosen) {
  float largest = 0.0F;
  for (; chosen != 0; chosen &= chosen - 1) {
    const float size = __builtin_fabsf(x[__builtin_ctz(chosen)]);
    if (!is_finite(size)) return __builtin_nanf("");
    largest = size > largest ? size : largest;
  }
  return largest;
}

// Divides the values that `chosen` names, `whole` steps large, by kExcessSteps: the remainder
// becomes the value, the quotient part of an excess. Returns the end of the excesses.
REFRAIN_INLINE Excess* split_values(const std::int32_t* whole, std::uint32_t chosen, float scale,
                                    std::uint32_t first_quad, std::int8_t* values,
                                    std::int32_t* sums, Excess* to) {
  Excess* const begin = to;
  for (; chosen != 0; chosen &= chosen - 1) {
    const auto i = static_cast<std::uint32_t>(__builtin_ctz(chosen));
    const std::int32_t half = whole[i] < 0 ? -kExcessSteps / 2 : kExcessSteps / 2;
    const std::int32_t quotient = (whole[i] + half) / kExcessSteps;
    const std::int32_t rest = whole[i] - kExcessSteps * quotient;
    values[i] = static_cast<std::int8_t>(rest);
    sums[i / kLanes] += rest;
    if (quotient == 0) continue;
    const std::uint32_t quad = first_quad + i / kQuad;
    if (to == begin || to[-1].quad != quad) {
      *to++ = {scale * kExcessSteps, {}, static_cast<std::uint16_t>(quad), 0};
    }
    to[-1].values[i % kQuad] = static_cast<std::int8_t>(quotient);
    to[-1].sum = static_cast<std::int16_t>(to[-1].sum + quotient);
  }
  return to;
}

// Group g of the row; values beyond `limit` stand out. Returns the end of the row's excesses.
REFRAIN_INLINE Excess* quantize_group(const float* x, const QuantizedRows& to, std::size_t row,
                                      std::uint32_t g, float limit, Excess* excesses) {
  const std::size_t at = row * (to.columns / kGroup) + g;
  std::int8_t* values = to.values + at * kGroup;
  std::int32_t* sums = to.sums + 2 * at;
  const Vec low = load(x), high = load(x + kLanes), most = splat(limit);
  const IntVec low_within = lanes_within(low, most), high_within = lanes_within(high, most);
  const std::uint32_t beyond = ~(lane_mask(low_within) | lane_mask(high_within) << kLanes);
  // As integers, magnitudes are in the order of the floats.
  const float within = float_of(
      max_lanes(max(bits_of(absolute(low)) & low_within, bits_of(absolute(high)) & high_within)));
  // With this the largest has 255 * 127 steps.
  const float least = largest_of(x, beyond) * (1.0F / kExcessSteps);
  const float largest = within >= least ? within : least;  // NaN if `least` is
  if (!is_finite(largest) || largest < kTiny) {
    for (std::uint32_t i = 0; i < kGroup; ++i) values[i] = 0;
    sums[0] = sums[1] = 0;
    to.scales[at] = to.scaled_sums[at] = is_finite(largest) ? 0.0F : __builtin_nanf("");
    return excesses;
  }
  const float scale = largest * (1.0F / 127.0F);
  const Vec inverse = splat(127.0F / largest);
  const IntVec low_whole = rounded(low * inverse), high_whole = rounded(high * inverse);
  store_low_bytes(values, low_whole);
  store_low_bytes(values + kLanes, high_whole);
  // Both sums at once: none has more than 16 bits.
  const std::int32_t both =
      sum_lanes((low_whole & low_within) + shift_left<16>(high_whole & high_within));
  sums[0] = static_cast<std::int16_t>(both);
  sums[1] = (both - sums[0]) / 65536;
  std::int32_t total = sums[0] + sums[1];
  if (beyond != 0) {
    std::int32_t whole[kGroup];
    store_int(whole, low_whole);
    store_int(whole + kLanes, high_whole);
    const std::uint32_t first_quad = g % kChunkGroups * (kGroup / kQuad);
    Excess* const first = excesses;
    excesses = split_values(whole, beyond, scale, first_quad, values, sums, first);
    total = sums[0] + sums[1];
    for (const Excess* e = first; e != excesses; ++e) total += kExcessSteps * e->sum;
  }
  to.scales[at] = scale;
  to.scaled_sums[at] = scale * static_cast<float>(total);  // exact: below 2^24
  return excesses;
}

void quantize_row(const float* x, std::uint32_t dim, float excess_ratio, const QuantizedRows& to,
                  std::size_t row) {
  const std::uint32_t groups = dim / kGroup;
  const std::uint32_t chunks = (groups + kChunkGroups - 1) / kChunkGroups;
  const float mean = sum_of_squares(x, dim) / static_cast<float>(dim);
  const float limit = excess_ratio * __builtin_sqrtf(mean);
  Excess* const first = to.excesses + row * (to.columns / kQuad);
  Excess* end = first;
  for (std::uint32_t g = 0; g < groups; ++g) {
    end = quantize_group(x + std::size_t{kGroup} * g, to, row, g, limit, end);
    to.excess_ends[row * chunks + g / kChunkGroups] = static_cast<std::uint32_t>(end - first);
  }
}

// ---- gates and simple arithmetic

// x * sigmoid(x).
REFRAIN_INLINE Vec silu(Vec x) {
  return times_sigmoid(x, x);
}

// 0.5 x (1 + tanh z) = x sigmoid(2 z), z = sqrt(2 / pi) (x + 0.044715 x^3).
REFRAIN_INLINE Vec gelu(Vec x) {
  const Vec cube = x * x * x;
  return times_sigmoid(x, splat(2 * 0.79788456F) * multiply_add(cube, splat(0.044715F), x));
}

void glu_row(const float* a, const float* b, std::uint32_t dim, Gate gate, float* y) {
  for (std::uint32_t i = 0; i < dim; i += kLanes) {
    const Vec x = load_part(a, i, dim);
    const Vec gated = gate == Gate::kSilu ? silu(x) : gelu(x);
    store_part(y, i, dim, gated * load_part(b, i, dim));
  }
}

void add_row(const float* a, const float* b, std::uint32_t dim, float* y) {
  for (std::uint32_t i = 0; i < dim; i += kLanes) {
    store_part(y, i, dim, load_part(a, i, dim) + load_part(b, i, dim));
  }
}

void scale_row(const float* x, float factor, std::uint32_t dim, float* y) {
  for (std::uint32_t i = 0; i < dim; i += kLanes) {
    store_part(y, i, dim, load_part(x, i, dim) * splat(factor));
  }
}

void soft_cap_row(float* y, std::uint32_t dim, float limit) {
  for (std::uint32_t i = 0; i < dim; i += kLanes) {
    const Vec x = load_part(y, i, dim);
    // NaN for an infinity too, which would hide behind the limit: x - x is zero otherwise.
    store_part(y, i, dim, soft_capped(x, limit) + (x - x));
  }
}

// ---- rotation (RoFormer, Su et al. 2021)

void rotate_row(float* x, std::uint32_t heads, std::uint32_t head_dim, const Rotation& rotation) {
  const std::uint32_t pairs = rotation.dimensions / 2;
  for (std::uint32_t h = 0; h < heads; ++h, x += head_dim) {
    if (rotation.halves) {
      for (std::uint32_t i = 0; i < pairs; i += kLanes) {
        const Vec c = load_part(rotation.cosine, i, pairs), s = load_part(rotation.sine, i, pairs);
        const Vec a = load_part(x, i, pairs), b = load_part(x + pairs, i, pairs);
        const Vec turned_a = a * c - b * s;
        const Vec turned_b = a * s + b * c;
        store_part(x, i, pairs, turned_a);
        store_part(x + pairs, i, pairs, turned_b);
      }
    } else {
      for (std::uint32_t i = 0; i < pairs; ++i) {
        const float c = rotation.cosine[i], s = rotation.sine[i];
        const float a = x[2 * i], b = x[2 * i + 1];
        x[2 * i] = a * c - b * s;
        x[2 * i + 1] = a * s + b * c;
      }
    }
  }
}

}  // namespace
}  // namespace refrain::kernels
