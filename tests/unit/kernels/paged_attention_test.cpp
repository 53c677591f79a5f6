// Paged attention against a plain double-precision softmax, and against itself under other cuts,
// block sizes and block orders, where not a bit may change (REQUIREMENTS A1).
#include "kernels/paged_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/rng.h"
#include "kernels/attention_variants.h"

namespace refrain::kernels {
namespace {

// Small finite float16 values, so that the test needs no conversion of its own beyond this one.
std::uint16_t half_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000);
  const int exponent = static_cast<int>((bits >> 23) & 0xFF) - 127;
  if (exponent < -24) return sign;
  if (exponent < -14) return sign | static_cast<std::uint16_t>(std::ldexp(std::fabs(value), 24));
  return static_cast<std::uint16_t>(sign | ((exponent + 15) << 10) | ((bits >> 13) & 0x3FF));
}

double value_of(std::uint16_t half) {
  const int exponent = (half >> 10) & 31, mantissa = half & 0x3FF;
  const double size =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (half & 0x8000) != 0 ? -size : size;
}

struct Problem {
  AttentionShape shape;
  std::uint32_t length = 0;                 // tokens of the sequence
  std::vector<float> query;                 // all positions
  std::vector<std::uint16_t> keys, values;  // [length][kv heads][dim], in position order

  std::size_t key_row() const { return std::size_t{shape.kv_head_count} * shape.key_dim; }
  std::size_t value_row() const { return std::size_t{shape.kv_head_count} * shape.value_dim; }
  std::size_t query_row() const { return std::size_t{shape.head_count} * shape.key_dim; }
  std::size_t output_row() const { return std::size_t{shape.head_count} * shape.value_dim; }
};

float random_value(Rng& rng) {
  return static_cast<float>(static_cast<double>(rng.next() >> 40) / (1 << 24)) * 4.0F - 2.0F;
}

Problem make_problem(const AttentionShape& shape, std::uint32_t length, std::uint64_t seed) {
  Problem p{shape, length, {}, {}, {}};
  Rng rng(seed);
  p.query.resize(p.query_row() * length);
  p.keys.resize(p.key_row() * length);
  p.values.resize(p.value_row() * length);
  for (float& x : p.query) x = random_value(rng);
  for (auto& x : p.keys) x = half_of(random_value(rng));
  for (auto& x : p.values) x = half_of(random_value(rng) * 1e-2F);
  return p;
}

// The problem's keys and values in an arena with shuffled blocks; all else in it is NaN.
struct Paged {
  std::vector<BlockId> table;
  std::vector<std::uint16_t> keys, values;
};

Paged paged(const Problem& p, std::uint32_t block_size, std::uint64_t seed) {
  Paged result;
  const std::uint32_t blocks = (p.length + block_size - 1) / block_size;
  std::vector<std::uint32_t> order(blocks + 3);
  std::iota(order.begin(), order.end(), 0U);
  Rng rng(seed);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.next() % i]);
  for (std::uint32_t b = 0; b < blocks; ++b) result.table.push_back(BlockId{order[b]});
  constexpr std::uint16_t kNan = 0x7E00;
  result.keys.assign(order.size() * block_size * p.key_row(), kNan);
  result.values.assign(order.size() * block_size * p.value_row(), kNan);
  for (std::uint32_t t = 0; t < p.length; ++t) {
    const std::size_t slot = std::size_t{order[t / block_size]} * block_size + t % block_size;
    std::copy_n(&p.keys[t * p.key_row()], p.key_row(), &result.keys[slot * p.key_row()]);
    std::copy_n(&p.values[t * p.value_row()], p.value_row(), &result.values[slot * p.value_row()]);
  }
  return result;
}

// Rows [from, to) of the problem as one batch.
std::vector<float> attend(const Problem& p, const Paged& arena, std::uint32_t block_size,
                          std::uint32_t from, std::uint32_t to,
                          AttentionKernel* kernel = run_attention) {
  std::vector<Position> positions(to - from);
  std::iota(positions.begin(), positions.end(), static_cast<Position>(from));
  const AttentionSequence sequence{arena.table.data(), 0, to - from};
  std::vector<float> output((to - from) * p.output_row(), -1.0F);
  AttentionCall call;
  call.shape = p.shape;
  call.query = p.query.data() + from * p.query_row();
  call.output = output.data();
  call.keys = arena.keys.data();
  call.values = arena.values.data();
  call.positions = positions.data();
  call.sequences = &sequence;
  call.block_size = block_size;
  std::vector<AttentionTask> tasks;
  plan_attention({&sequence, 1}, positions.data(), p.shape, tasks);
  // What an earlier task has left behind must not matter either.
  std::vector<float> scratch(attention_scratch_floats(p.shape), std::nanf(""));
  for (const AttentionTask& task : tasks) kernel(call, task, scratch.data());
  return output;
}

double naive(const Problem& p, std::uint32_t position, std::uint32_t head, std::uint32_t dim) {
  const std::uint32_t kv_head = head / (p.shape.head_count / p.shape.kv_head_count);
  const std::uint32_t window = p.shape.window;
  double total = 0.0, weighted = 0.0;
  for (std::uint32_t t = 0; t <= position; ++t) {
    if (window > 0 && position - t >= window) continue;
    double score = 0.0;
    for (std::uint32_t d = 0; d < p.shape.key_dim; ++d) {
      score += p.query[position * p.query_row() + head * p.shape.key_dim + d] *
               value_of(p.keys[t * p.key_row() + kv_head * p.shape.key_dim + d]);
    }
    const double weight = std::exp(score * p.shape.scale);
    total += weight;
    weighted += weight * value_of(p.values[t * p.value_row() + kv_head * p.shape.value_dim + dim]);
  }
  return weighted / total;
}

std::vector<AttentionShape> shapes() {
  return {{9, 3, 64, 64, 0.125F, 0}, {4, 1, 256, 256, 0.0625F, 100}, {4, 2, 16, 16, 0.25F, 32},
          {6, 2, 80, 48, 0.11F, 0},  {5, 5, 20, 36, 0.2F, 300},      {8, 1, 128, 128, 0.09F, 1}};
}

struct NamedKernel {
  const char* name;
  AttentionKernel* kernel;
};

std::vector<NamedKernel> kernels_here() {
  std::vector<NamedKernel> kernels = {{"portable", run_attention_portable}};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) kernels.push_back({"avx2", run_attention_avx2});
  if (__builtin_cpu_supports("avx512f")) kernels.push_back({"avx512", run_attention_avx512});
#endif
  return kernels;
}

TEST(PagedAttention, EveryInstructionSetAgreesWithAPlainSoftmax) {
  for (const AttentionShape& shape : shapes()) {
    const Problem p = make_problem(shape, 531, 11);
    const Paged arena = paged(p, 16, 5);
    for (const auto& [name, kernel] : kernels_here()) {
      const std::vector<float> output = attend(p, arena, 16, 0, p.length, kernel);
      for (const std::uint32_t position : {0U, 1U, 31U, 255U, 256U, 257U, 511U, 530U}) {
        for (std::uint32_t head = 0; head < shape.head_count; ++head) {
          for (const std::uint32_t dim : {0U, 7U, shape.value_dim - 1}) {
            const float found = output[position * p.output_row() + head * shape.value_dim + dim];
            EXPECT_NEAR(found, naive(p, position, head, dim), 2e-7)
                << name << " position " << position << " head " << head << " dim " << dim;
          }
        }
      }
    }
  }
}

TEST(PagedAttention, NeitherCutsNorBlocksChangeABit) {
  for (const AttentionShape& shape : shapes()) {
    const Problem p = make_problem(shape, 700, 23);
    const std::vector<float> whole = attend(p, paged(p, 16, 1), 16, 0, p.length);
    std::uint64_t seed = 2;
    for (const std::uint32_t block_size : {16U, 32U, 64U}) {
      const Paged arena = paged(p, block_size, ++seed);
      Rng rng(seed);
      for (std::uint32_t from = 0; from < p.length;) {
        const auto step = static_cast<std::uint32_t>(1 + rng.next() % 130);
        const std::uint32_t to = std::min(p.length, from + (rng.next() % 3 == 0 ? 1U : step));
        const std::vector<float> part = attend(p, arena, block_size, from, to);
        EXPECT_EQ(std::memcmp(part.data(), whole.data() + from * p.output_row(),
                              part.size() * sizeof(float)),
                  0)
            << "rows " << from << " to " << to << ", block size " << block_size;
        from = to;
      }
    }
  }
}

TEST(PagedAttention, ANanKeyReachesTheOutputOfTheRowsThatSeeItAndOfNoOther) {
  const Problem clean = make_problem({4, 2, 32, 32, 0.2F, 0}, 300, 3);
  Problem p = clean;
  p.keys[270 * p.key_row() + 5] = 0x7E00;  // position 270, KV head 0
  const std::vector<float> expected = attend(clean, paged(clean, 16, 9), 16, 0, 300);
  const std::vector<float> output = attend(p, paged(p, 16, 9), 16, 0, 300);
  for (std::uint32_t position = 0; position < 270; ++position) {
    EXPECT_EQ(output[position * p.output_row()], expected[position * p.output_row()]) << position;
  }
  for (std::uint32_t position = 270; position < 300; ++position) {
    EXPECT_TRUE(std::isnan(output[position * p.output_row()])) << position;
    EXPECT_FALSE(std::isnan(output[position * p.output_row() + 2 * 32])) << "head 2 has KV head 1";
  }
}

TEST(PagedAttention, APlanCoversEachRowAndHeadOnce) {
  const AttentionShape shape{6, 2, 16, 16, 1.0F, 0};
  const std::vector<AttentionSequence> sequences = {
      {nullptr, 0, 200}, {nullptr, 200, 1}, {nullptr, 201, 77}};
  std::vector<Position> positions(278);
  std::iota(positions.begin(), positions.end(), 0);
  std::vector<AttentionTask> tasks;
  plan_attention(sequences, positions.data(), shape, tasks);
  std::vector<int> seen(278 * 2, 0);
  for (const AttentionTask& task : tasks) {
    for (std::uint32_t r = 0; r < task.row_count; ++r) {
      const AttentionSequence& s = sequences[task.sequence];
      EXPECT_GE(task.first_row + r, s.first_row);
      EXPECT_LT(task.first_row + r, s.first_row + s.row_count);
      ++seen[(task.first_row + r) * 2 + task.kv_head];
    }
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), 278 * 2);
}

}  // namespace
}  // namespace refrain::kernels
