// Products of packed matrices: against a double-precision product of what ggml says the weights
// are, and against themselves on other instruction sets and in other cuts, where not a bit may
// change (REQUIREMENTS A2).
#include "kernels/linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/rng.h"
#include "ggml.h"
#include "kernels/cpu_kernels.h"

namespace refrain::kernels {
namespace {

struct TypePair {
  WeightType ours;
  ggml_type theirs;
};

constexpr TypePair kTypes[] = {
    {WeightType::kF32, GGML_TYPE_F32},   {WeightType::kF16, GGML_TYPE_F16},
    {WeightType::kBF16, GGML_TYPE_BF16}, {WeightType::kQ4_0, GGML_TYPE_Q4_0},
    {WeightType::kQ4_1, GGML_TYPE_Q4_1}, {WeightType::kQ5_0, GGML_TYPE_Q5_0},
    {WeightType::kQ5_1, GGML_TYPE_Q5_1}, {WeightType::kQ8_0, GGML_TYPE_Q8_0},
    {WeightType::kQ4_K, GGML_TYPE_Q4_K}, {WeightType::kQ5_K, GGML_TYPE_Q5_K},
    {WeightType::kQ6_K, GGML_TYPE_Q6_K}};

constexpr float kExcessRatio = 6.0F;

float uniform(Rng& rng) {
  return static_cast<float>(static_cast<double>(rng.next() >> 40) / (1 << 24)) * 2.0F - 1.0F;
}

std::byte* aligned(std::vector<std::byte>& memory, std::size_t bytes) {
  memory.resize(bytes + 64);
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  return memory.data() + (64 - address % 64) % 64;
}

// A matrix in the file's form, its packed form, and its weights as ggml reads them.
struct Matrix {
  PackedMatrix packed;
  std::vector<std::byte> memory;
  std::vector<float> weights;  // [rows][columns]

  Matrix(const TypePair& type, std::uint32_t rows, std::uint32_t columns, Rng& rng, float size) {
    std::vector<float> random(std::size_t{rows} * columns);
    for (float& w : random) w = uniform(rng) * size;
    std::vector<std::byte> file(ggml_row_size(type.theirs, columns) * rows);
    if (type.ours == WeightType::kF32) {
      std::memcpy(file.data(), random.data(), file.size());
      weights = random;
    } else {
      ggml_quantize_chunk(type.theirs, random.data(), file.data(), 0, rows, columns, nullptr);
      weights.resize(random.size());
      for (std::uint32_t row = 0; row < rows; ++row) {
        ggml_get_type_traits(type.theirs)
            ->to_float(file.data() + ggml_row_size(type.theirs, columns) * row,
                       weights.data() + std::size_t{columns} * row, columns);
      }
    }
    packed = {type.ours, rows, columns, nullptr};
    EXPECT_EQ(std::size_t{block_bytes(type.ours)} * columns / block_weights(type.ours),
              ggml_row_size(type.theirs, columns));
    std::byte* to = aligned(memory, packed.bytes());
    pack_panels(packed, file.data(), 0, packed.panel_count(), to);
    packed.data = to;
  }
};

struct Rows {
  std::uint32_t count = 0, dim = 0;
  std::vector<float> values;
  std::vector<std::byte> memory;
  LinearInput input;

  Rows(std::vector<float> x, std::uint32_t dim_, const CpuKernels& kernels)
      : count(static_cast<std::uint32_t>(x.size() / dim_)), dim(dim_), values(std::move(x)) {
    input.rows = values.data();
    input.stride = dim;
    if (dim % kGroup != 0) return;
    input.quantized =
        QuantizedRows::at(aligned(memory, QuantizedRows::bytes(count, dim)), count, dim);
    for (std::uint32_t row = 0; row < count; ++row) {
      kernels.quantize_row(values.data() + std::size_t{dim} * row, dim, kExcessRatio,
                           input.quantized, row);
    }
  }

  // The excess of a row's value, null if its quad has none.
  const Excess* excess(std::size_t row, std::size_t k) const {
    const QuantizedRows& q = input.quantized;
    const std::size_t chunk = k / kGroup / kChunkGroups, quad = k / kQuad % (8 * kChunkGroups);
    const std::uint32_t* ends = q.excess_ends + row * q.chunks() + chunk;
    const Excess* all = q.excesses + row * q.quads();
    for (const Excess* at = all + (chunk == 0 ? 0 : ends[-1]); at != all + ends[0]; ++at) {
      if (at->quad == quad) return at;
    }
    return nullptr;
  }

  // The value that the product sees.
  double value(bool quantized, std::size_t row, std::size_t k) const {
    const std::size_t at = row * dim + k;
    if (!quantized) return values[at];
    const QuantizedRows& q = input.quantized;
    const double value = q.values[at] * double{q.scales[row * q.groups() + k / kGroup]};
    const Excess* above = excess(row, k);
    return above == nullptr ? value : value + double{above->scale} * above->values[k % kQuad];
  }
};

std::vector<float> multiply(const CpuKernels& kernels, const Matrix& matrix, const Rows& rows,
                            std::uint32_t step_rows, std::uint32_t step_panels) {
  const std::size_t stride = matrix.packed.rows;
  std::vector<float> y(stride * rows.count + 1, 777.0F);  // the last must stay
  std::vector<std::byte> memory;
  std::byte* scratch = aligned(memory, linear_scratch_bytes());
  const std::uint32_t panels = matrix.packed.panel_count();
  for (std::uint32_t row = 0; row < rows.count; row += step_rows) {
    for (std::uint32_t panel = 0; panel < panels; panel += step_panels) {
      kernels.linear(matrix.packed, rows.input,
                     {row, std::min(rows.count, row + step_rows), panel,
                      std::min(panels, panel + step_panels)},
                     y.data(), stride, scratch);
    }
  }
  EXPECT_EQ(y.back(), 777.0F);
  y.pop_back();
  return y;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<float> random_rows(std::uint32_t count, std::uint32_t dim, Rng& rng) {
  std::vector<float> x(std::size_t{count} * dim);
  for (float& v : x) {
    v = uniform(rng);
    if (rng.next() % 97 == 0) v *= 40.0F;  // so that some stand out
  }
  return x;
}

// Every FP32 step of the sum errs by at most half a unit of the partial sum's size, which the sum
// of the terms' magnitudes bounds; a group takes at most 5 steps and 3 for each of its quads, a
// floating column one.
void expect_close(const Matrix& matrix, const Rows& rows, const std::vector<float>& y) {
  const bool quantized = is_quantized(matrix.packed.type);
  const double steps = quantized ? 29.0 * rows.dim / kGroup + 4 : rows.dim + 1.0;
  for (std::uint32_t row = 0; row < rows.count; ++row) {
    for (std::uint32_t n = 0; n < matrix.packed.rows; ++n) {
      double exact = 0.0, size = 0.0;
      for (std::uint32_t k = 0; k < rows.dim; ++k) {
        const double w = matrix.weights[std::size_t{n} * rows.dim + k];
        const double x = rows.value(quantized, row, k);
        exact += w * x;
        // Integers are larger than the weights they stand for by their offset or minimum.
        size += (std::fabs(w) + (quantized ? 2.0 : 0.0)) * std::fabs(x);
      }
      const float got = y[std::size_t{row} * matrix.packed.rows + n];
      ASSERT_NEAR(got, exact, steps * 0x1p-24 * size + 1e-30)
          << "row " << row << ", output " << n << ", type " << static_cast<int>(matrix.packed.type);
    }
  }
}

TEST(Linear, IsTheProductAndTheSameBitsHoweverItIsCut) {
  Rng rng(7);
  const std::uint32_t row_counts[] = {1, 2, 3, 7, 8, 9, 16, 65};
  for (const TypePair& type : kTypes) {
    const std::uint32_t unit = block_weights(type.ours);
    for (int trial = 0; trial < 6; ++trial) {
      std::uint32_t columns =
          unit * (1 + static_cast<std::uint32_t>(rng.next() % (unit > 32 ? 6 : 42)));
      if (unit == 1) columns = 1 + static_cast<std::uint32_t>(rng.next() % 700);
      const auto outputs = 1 + static_cast<std::uint32_t>(rng.next() % 70);
      const std::uint32_t count = row_counts[rng.next() % std::size(row_counts)];
      const Matrix matrix(type, outputs, columns, rng, 1.0F);
      std::vector<float> reference;
      for (const InstructionSet set : available_instruction_sets()) {
        const CpuKernels& kernels = cpu_kernels(set);
        const Rows rows(random_rows(count, columns, rng = Rng(trial * 31 + columns)), columns,
                        kernels);
        const std::vector<float> y = multiply(kernels, matrix, rows, count, outputs);
        if (reference.empty()) {
          expect_close(matrix, rows, y);
          reference = y;
        }
        EXPECT_TRUE(same_bits(reference, y))
            << name_of(set) << ", type " << static_cast<int>(type.ours);
        EXPECT_TRUE(same_bits(reference, multiply(kernels, matrix, rows, 1, 1))) << name_of(set);
        EXPECT_TRUE(same_bits(reference, multiply(kernels, matrix, rows, 5, 2))) << name_of(set);
      }
    }
  }
}

TEST(Linear, ManyRows) {
  Rng rng(8);
  for (const TypePair& type : {kTypes[4], kTypes[7], kTypes[10], kTypes[1]}) {
    const Matrix matrix(type, 48, 512, rng, 1.0F);
    const Rows rows(random_rows(513, 512, rng), 512, cpu_kernels(best_instruction_set()));
    const std::vector<float> y =
        multiply(cpu_kernels(best_instruction_set()), matrix, rows, 513, 3);
    expect_close(matrix, rows, y);
    EXPECT_TRUE(same_bits(y, multiply(cpu_kernels(best_instruction_set()), matrix, rows, 64, 1)));
  }
}

TEST(Linear, TinyHugeAndBrokenValues) {
  Rng rng(9);
  for (const TypePair& type : kTypes) {
    const Matrix matrix(type, 33, 512, rng, 1e-3F);
    for (const float size : {1e-42F, 1e-36F, 1e-33F, 1e-20F, 1e20F, 1e32F}) {
      std::vector<float> reference;
      for (const InstructionSet set : available_instruction_sets()) {
        std::vector<float> x = random_rows(9, 512, rng = Rng(5));
        for (float& v : x) v *= size / 40.0F;
        x[512 * 4 + 100] = std::numeric_limits<float>::quiet_NaN();
        x[512 * 6 + 300] = std::numeric_limits<float>::infinity();
        const Rows rows(std::move(x), 512, cpu_kernels(set));
        const std::vector<float> y = multiply(cpu_kernels(set), matrix, rows, 9, 3);
        for (std::size_t i = 0; i < y.size(); ++i) {
          const std::size_t row = i / 33;
          const bool broken = row == 4 || row == 6;
          if (broken) {
            ASSERT_FALSE(std::isfinite(y[i])) << row;
          } else {
            ASSERT_TRUE(std::isfinite(y[i])) << "row " << row << " size " << size;
          }
        }
        std::vector<float> sound;
        for (std::size_t i = 0; i < y.size(); ++i) {
          if (i / 33 != 4 && i / 33 != 6) sound.push_back(y[i]);
        }
        if (reference.empty()) reference = sound;
        EXPECT_TRUE(same_bits(reference, sound)) << name_of(set) << " size " << size;
      }
    }
  }
}

TEST(QuantizeRow, StepsAreThoseOfTheValuesThatDoNotStandOut) {
  Rng rng(10);
  const std::uint32_t dim = 1056;  // 33 groups: two chunks
  const std::vector<float> x = random_rows(40, dim, rng);
  const Rows rows(x, dim, cpu_kernels(best_instruction_set()));
  const QuantizedRows& q = rows.input.quantized;
  std::uint32_t outstanding = 0;
  for (std::size_t row = 0; row < rows.count; ++row) {
    const float* values = x.data() + row * dim;
    double square = 0.0;
    for (std::size_t k = 0; k < dim; ++k) square += double{values[k]} * values[k];
    const double limit = kExcessRatio * std::sqrt(square / dim);
    for (std::size_t g = 0; g < q.groups(); ++g) {
      double largest = 0.0, within = 0.0, sum = 0.0;
      for (std::size_t k = kGroup * g; k < kGroup * (g + 1); ++k) {
        const double size = std::fabs(values[k]);
        largest = std::max(largest, size);
        if (size <= limit) within = std::max(within, size);
        outstanding += size > limit ? 1 : 0;
        sum += rows.value(true, row, k);
      }
      const double step = q.scales[row * q.groups() + g];
      ASSERT_NEAR(step, std::max(within, largest / 255) / 127, 1e-6 * step);
      ASSERT_NEAR(q.scaled_sums[row * q.groups() + g], sum, 1e-5 * largest);
      for (std::size_t k = kGroup * g; k < kGroup * (g + 1); ++k) {
        ASSERT_NEAR(rows.value(true, row, k), values[k], 0.501 * step) << row << ' ' << k;
        ASSERT_TRUE(std::fabs(values[k]) <= limit || rows.excess(row, k) != nullptr);
      }
    }
  }
  EXPECT_GT(outstanding, 200U);
  EXPECT_LT(outstanding, 40 * dim / 50);
}

TEST(QuantizeRow, GroupOfNothingButLargeValues) {
  const std::uint32_t dim = 32 * 64;
  std::vector<float> x(dim, 1e-3F);
  for (std::size_t k = 32; k < 64; ++k) x[k] = k % 2 == 0 ? 100.0F : -99.0F;
  x[64] = 300.0F;  // far above what else is in its group
  x[65] = 0.0F;
  for (const InstructionSet set : available_instruction_sets()) {
    const Rows rows(x, dim, cpu_kernels(set));
    const QuantizedRows& q = rows.input.quantized;
    for (std::size_t k = 0; k < dim; ++k) {
      ASSERT_NEAR(rows.value(true, 0, k), x[k], 0.501 * q.scales[k / kGroup]) << k;
    }
    EXPECT_EQ(q.excess_ends[0], 9U);  // all quads of the second group, one of the third
    EXPECT_EQ(q.excess_ends[1], 9U);
    EXPECT_LT(q.scales[1], 100.0F / 32000);
    EXPECT_FLOAT_EQ(q.scales[2], 300.0F / 255 / 127);
  }
}

}  // namespace
}  // namespace refrain::kernels
