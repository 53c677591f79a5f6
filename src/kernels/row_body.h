// The operations of row_ops.h, written once on simd16.h and compiled once per instruction set.
#pragma once

#include "kernels/linear.h"
#include "kernels/row_ops.h"
#include "kernels/simd16.h"

namespace refrain::kernels {
namespace {

// Up to 16 values; lanes beyond the row are zero.
REFRAIN_INLINE F16 load_part16(const float* p, std::uint32_t count) {
  if (count >= 16) return load16(p);
  float part[16] = {};
  for (std::uint32_t i = 0; i < count; ++i) part[i] = p[i];
  return load16(part);
}

REFRAIN_INLINE void store_part16(float* p, std::uint32_t count, F16 v) {
  if (count >= 16) return store16(p, v);
  float part[16];
  store16(part, v);
  for (std::uint32_t i = 0; i < count; ++i) p[i] = part[i];
}

float sum_of_squares(const float* x, std::uint32_t dim) {
  F16 total = zero16();
  for (std::uint32_t i = 0; i < dim; i += 16) {
    const F16 v = load_part16(x + i, dim - i);
    total = multiply_add16(v, v, total);
  }
  return sum16(total);
}

void rms_norm(const float* x, const float* weight, std::uint32_t dim, float epsilon, float* y) {
  const float mean = sum_of_squares(x, dim) / static_cast<float>(dim);
  const F16 factor = splat16(1.0F / __builtin_sqrtf(mean + epsilon));
  for (std::uint32_t i = 0; i < dim; i += 16) {
    const F16 v = multiply16(load_part16(x + i, dim - i), factor);
    store_part16(y + i, dim - i, multiply16(v, load_part16(weight + i, dim - i)));
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
  const F16 scaled = multiply16(load16(x), splat16(inverse));
  const I16 rounded = round_to_int16(scaled);
  store_bytes16(values, rounded);
  if (!marked) {
    store_bytes16(residuals, splat_int16(0));
    return {sum_int16(rounded), 0};
  }
  F16 rest = multiply16(subtract16(scaled, to_float16(rounded)), splat16(256.0F));
  rest = max16(min16(rest, splat16(127.0F)), splat16(-127.0F));
  const I16 rounded_rest = round_to_int16(rest);
  store_bytes16(residuals, rounded_rest);
  return {sum_int16(rounded), sum_int16(rounded_rest)};
}

// The bits of the largest magnitude: without its sign a float's bits order like its magnitude, NaN
// above infinity.
REFRAIN_INLINE float largest_magnitude32(const float* x) {
  const I16 positive = splat_int16(0x7FFFFFFF);
  const std::int32_t bits = largest_int16(max_unsigned16(
      and_int16(bits_of16(load16(x)), positive), and_int16(bits_of16(load16(x + 16)), positive)));
  float largest;
  __builtin_memcpy(&largest, &bits, 4);
  return largest;
}

// Group g of the row; returns whether it is marked.
REFRAIN_INLINE bool quantize_group(const float* x, const QuantizedRows& to, std::size_t row,
                                   std::uint32_t g, float limit) {
  const std::size_t at = row * (to.columns / kGroup) + g;
  std::int8_t* values = to.values + at * kGroup;
  std::int8_t* residuals = to.residuals + at * kGroup;
  const float largest = largest_magnitude32(x);
  const bool finite = largest <= 3.4028235e38F, tiny = largest < kTiny;
  const bool marked = finite && !tiny && largest > limit;
  const float inverse = finite && !tiny ? 127.0F / largest : 0.0F;
  HalfSums half[2];
  if (finite) {
    half[0] = quantize_half(x, inverse, marked, values, residuals);
    half[1] = quantize_half(x + 16, inverse, marked, values + 16, residuals + 16);
  } else {
    for (std::uint32_t i = 0; i < kGroup; ++i) values[i] = residuals[i] = 0;
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

// x / (1 + e^-x), without overflow on either side.
REFRAIN_INLINE F16 silu16(F16 x) {
  const F16 magnitude = max16(x, subtract16(zero16(), x));
  const F16 e = exp_nonpositive16(subtract16(zero16(), magnitude));
  const F16 one = splat16(1.0F);
  // sigmoid(|x|) = 1 / (1 + e), sigmoid(-|x|) = e / (1 + e); the smaller of x and 0 chooses.
  const F16 above = divide16(one, add16(one, e));
  const F16 below = divide16(e, add16(one, e));
  // x >= 0: x * above; x < 0: x * below. max(x, 0) + min(x, 0) = x, and NaN passes through both.
  return add16(multiply16(max16(zero16(), x), above), multiply16(min16(zero16(), x), below));
}

REFRAIN_INLINE F16 gelu16(F16 x) {
  const F16 cube = multiply16(multiply16(x, x), x);
  const F16 z = multiply16(splat16(0.79788456F), multiply_add16(cube, splat16(0.044715F), x));
  // 0.5 (1 + tanh z) = 1 / (1 + e^(-2 z))
  const F16 twice = add16(z, z);
  const F16 magnitude = max16(twice, subtract16(zero16(), twice));
  const F16 e = exp_nonpositive16(subtract16(zero16(), magnitude));
  const F16 one = splat16(1.0F);
  const F16 above = divide16(one, add16(one, e));
  const F16 below = divide16(e, add16(one, e));
  return add16(multiply16(max16(zero16(), x), above), multiply16(min16(zero16(), x), below));
}

void glu_row(const float* a, const float* b, std::uint32_t dim, Gate gate, float* y) {
  for (std::uint32_t i = 0; i < dim; i += 16) {
    const F16 x = load_part16(a + i, dim - i);
    const F16 gated = gate == Gate::kSilu ? silu16(x) : gelu16(x);
    store_part16(y + i, dim - i, multiply16(gated, load_part16(b + i, dim - i)));
  }
}

void add_row(const float* a, const float* b, std::uint32_t dim, float* y) {
  for (std::uint32_t i = 0; i < dim; i += 16) {
    store_part16(y + i, dim - i, add16(load_part16(a + i, dim - i), load_part16(b + i, dim - i)));
  }
}

void scale_row(const float* x, float factor, std::uint32_t dim, float* y) {
  for (std::uint32_t i = 0; i < dim; i += 16) {
    store_part16(y + i, dim - i, multiply16(load_part16(x + i, dim - i), splat16(factor)));
  }
}

// limit * tanh(y / limit) with tanh z = sign(z) (1 - e^(-2 |z|)) / (1 + e^(-2 |z|)); as the
// exponent stays above -87, 1 - e never loses the sign. Where y is small the difference 1 - e
// cancels: its error there is below 1e-7 of the limit.
void soft_cap_row(float* y, std::uint32_t dim, float limit) {
  for (std::uint32_t i = 0; i < dim; i += 16) {
    const F16 x = load_part16(y + i, dim - i);
    const F16 z = divide16(x, splat16(limit));
    const F16 magnitude = max16(z, subtract16(zero16(), z));
    const F16 e = exp_nonpositive16(multiply16(magnitude, splat16(-2.0F)));
    const F16 t = divide16(subtract16(splat16(1.0F), e), add16(splat16(1.0F), e));
    const I16 sign = and_int16(bits_of16(x), bits_of16(splat16(-0.0F)));
    F16 capped = multiply16(float_of_bits16(add_int16(bits_of16(t), sign)), splat16(limit));
    // NaN and infinity: x - x is NaN for them and zero otherwise.
    capped = add16(capped, subtract16(x, x));
    store_part16(y + i, dim - i, capped);
  }
}

// ---- rotation (RoFormer, Su et al. 2021)

void rotate_row(float* x, std::uint32_t heads, std::uint32_t head_dim, const Rotation& rotation) {
  const std::uint32_t pairs = rotation.dimensions / 2;
  for (std::uint32_t h = 0; h < heads; ++h, x += head_dim) {
    if (rotation.halves) {
      for (std::uint32_t i = 0; i < pairs; i += 16) {
        const std::uint32_t left = pairs - i;
        const F16 c = load_part16(rotation.cosine + i, left),
                  s = load_part16(rotation.sine + i, left);
        const F16 a = load_part16(x + i, left), b = load_part16(x + pairs + i, left);
        const F16 turned_a = subtract16(multiply16(a, c), multiply16(b, s));
        const F16 turned_b = add16(multiply16(a, s), multiply16(b, c));
        store_part16(x + i, left, turned_a);
        store_part16(x + pairs + i, left, turned_b);
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
