// The operations of row_ops.h, written once on simd.h and compiled once per instruction set.
#pragma once

#include "kernels/linear.h"
#include "kernels/row_ops.h"
#include "kernels/simd_math.h"

namespace refrain::kernels {
namespace {

float sum_of_squares(const float* x, std::uint32_t dim) {
  Vec total = splat(0.0F);
  for (std::uint32_t i = 0; i < dim; i += kLanes) {
    const Vec v = load_part(x, i, dim);
    total = multiply_add(v, v, total);
  }
  return sum_lanes(total);
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

constexpr float kTiny = 1e-30F;  // below, the inverse scale would overflow

// What quantize_half() leaves for the sums.
struct HalfSums {
  std::int32_t values = 0, residuals = 0;
};

// Half a group: 16 values and, if marked, what rounding left of them in steps of scale / 256.
REFRAIN_INLINE HalfSums quantize_half(const float* x, float inverse, bool marked,
                                      std::int8_t* values, std::int8_t* residuals) {
  const Vec scaled = load(x) * splat(inverse);
  const IntVec whole = rounded(scaled);
  store_low_bytes(values, whole);
  if (!marked) return {sum_lanes(whole), 0};
  Vec rest = (scaled - to_float(whole)) * splat(256.0F);
  rest = max(min(rest, splat(127.0F)), splat(-127.0F));
  const IntVec whole_rest = rounded(rest);
  store_low_bytes(residuals, whole_rest);
  return {sum_lanes(whole), sum_lanes(whole_rest)};
}

// Group g of the row; returns whether it is marked.
REFRAIN_INLINE bool quantize_group(const float* x, const QuantizedRows& to, std::size_t row,
                                   std::uint32_t g, float limit) {
  const std::size_t at = row * (to.columns / kGroup) + g;
  std::int8_t* values = to.values + at * kGroup;
  std::int8_t* residuals = to.residuals + at * kGroup;
  const float largest = largest_magnitude(x, kGroup);
  const bool finite = is_finite(largest), tiny = largest < kTiny;
  const bool marked = finite && !tiny && largest > limit;
  const float inverse = finite && !tiny ? 127.0F / largest : 0.0F;
  HalfSums half[2];
  if (finite) {
    half[0] = quantize_half(x, inverse, marked, values, residuals);
    half[1] = quantize_half(x + 16, inverse, marked, values + 16, residuals + 16);
  } else {
    for (std::uint32_t i = 0; i < kGroup; ++i) values[i] = 0;
  }
  for (int i = 0; i < 2; ++i) {
    to.sums[2 * at + i] = half[i].values;
    to.residual_sums[2 * at + i] = half[i].residuals;
  }
  const float scale = !finite ? __builtin_nanf("") : tiny ? 0.0F : largest / 127.0F;
  // Exact: the sums are small integers.
  const float sum = static_cast<float>(half[0].values + half[1].values) +
                    static_cast<float>(half[0].residuals + half[1].residuals) * (1.0F / 256);
  to.scales[at] = scale;
  to.scaled_sums[at] = scale * sum;
  return marked;
}

void quantize_row(const float* x, std::uint32_t dim, float mark_ratio, const QuantizedRows& to,
                  std::size_t row) {
  const std::uint32_t groups = dim / kGroup;
  const std::uint32_t words = (groups + kGroupsPerWord - 1) / kGroupsPerWord;
  const float mean = sum_of_squares(x, dim) / static_cast<float>(dim);
  const float limit = mark_ratio * __builtin_sqrtf(mean);
  for (std::uint32_t w = 0; w < words; ++w) {
    const std::uint32_t first = w * kGroupsPerWord;
    const std::uint32_t last = groups - first < kGroupsPerWord ? groups : first + kGroupsPerWord;
    std::uint32_t marks = 0;
    for (std::uint32_t g = first; g < last; ++g) {
      const bool marked = quantize_group(x + std::size_t{kGroup} * g, to, row, g, limit);
      marks |= static_cast<std::uint32_t>(marked) << (g - first);
    }
    to.marks[row * words + w] = marks;
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
