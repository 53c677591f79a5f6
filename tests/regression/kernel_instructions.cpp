// Runs kernels one after the other on fixed small problems, for instruction_count_test.py, which
// counts the instructions between entry and return of refrain_measured() under valgrind.
//
//   kernel_instructions SET      names of what ran, one a line, in order; 3: not on this processor
//
// Weights are random bytes that are small positive numbers in every type, so that nothing is NaN.
#include <cstdio>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/rng.h"
#include "kernels/cpu_kernels.h"
#include "support/attention_problem.h"

// Not inlined and with C linkage: valgrind finds it by this name.
extern "C" __attribute__((noinline)) void refrain_measured(const std::function<void()>& work) {
  work();
  asm volatile("" ::: "memory");
}

namespace refrain::kernels {
namespace {

constexpr std::uint32_t kColumns = 1024, kOutputs = 64;
constexpr float kExcessRatio = 4.0F;

AlignedBuffer memory_of(std::size_t bytes) {
  AlignedBuffer memory;
  if (!memory.reserve(bytes)) std::abort();
  return memory;
}

void measure(const std::string& name, const std::function<void()>& work) {
  std::printf("%s\n", name.c_str());
  refrain_measured(work);
}

std::vector<float> random_values(std::size_t count) {
  Rng rng(1);
  std::vector<float> values(count);
  for (float& value : values) value = random_value(rng);
  return values;
}

struct Rows {
  static constexpr std::uint32_t kCount = 16;
  std::vector<float> x;
  AlignedBuffer memory = memory_of(QuantizedRows::bytes(kCount, kColumns));
  LinearInput input;

  Rows(const CpuKernels& kernels, std::vector<float> values) : x(std::move(values)) {
    input = {x.data(), kColumns, QuantizedRows::at(memory.data(), kCount, kColumns)};
    for (std::uint32_t row = 0; row < kCount; ++row) {
      kernels.quantize_row(x.data() + std::size_t{kColumns} * row, kColumns, kExcessRatio,
                           input.quantized, row);
    }
  }
};

// With one value in every fourth group that stands out.
std::vector<float> with_excesses(std::vector<float> x) {
  for (std::size_t i = 7; i < x.size(); i += std::size_t{4} * kGroup) x[i] = 20.0F;
  return x;
}

void measure_products(const CpuKernels& kernels) {
  constexpr std::pair<WeightType, const char*> kTypes[] = {
      {WeightType::kF32, "f32"},   {WeightType::kF16, "f16"},   {WeightType::kBF16, "bf16"},
      {WeightType::kQ4_0, "q4_0"}, {WeightType::kQ4_1, "q4_1"}, {WeightType::kQ5_0, "q5_0"},
      {WeightType::kQ5_1, "q5_1"}, {WeightType::kQ8_0, "q8_0"}, {WeightType::kQ4_K, "q4_K"},
      {WeightType::kQ5_K, "q5_K"}, {WeightType::kQ6_K, "q6_K"}};
  constexpr std::uint32_t kRowCounts[] = {1, 16};
  const AlignedBuffer scratch = memory_of(linear_scratch_bytes());
  const std::vector<float> x = random_values(std::size_t{Rows::kCount} * kColumns);
  const Rows plain(kernels, x), outstanding(kernels, with_excesses(x));
  std::vector<float> y(std::size_t{Rows::kCount} * kOutputs);
  for (const auto& [type, name] : kTypes) {
    PackedMatrix matrix{type, kOutputs, kColumns, nullptr};
    const AlignedBuffer memory = memory_of(matrix.bytes());
    Rng rng(2);
    for (std::size_t i = 0; i < matrix.bytes(); ++i)
      memory.data()[i] = static_cast<std::byte>(rng.next() & 0x3BU);
    matrix.data = memory.data();
    const auto measure_product = [&](const char* of, const Rows& rows, std::uint32_t count) {
      measure(std::string("product ") + name + of + ", rows " + std::to_string(count), [&] {
        kernels.linear(matrix, rows.input, {0, count, 0, matrix.panel_count()}, y.data(), kOutputs,
                       scratch.data());
      });
    };
    for (const std::uint32_t count : kRowCounts) measure_product("", plain, count);
    if (type == WeightType::kQ4_1 || type == WeightType::kQ6_K) {
      measure_product(" with excesses", outstanding, Rows::kCount);
    }
  }
}

void measure_row_operations(const CpuKernels& kernels) {
  const std::vector<float> x = random_values(kColumns);
  std::vector<float> y(kColumns);
  const AlignedBuffer rows = memory_of(QuantizedRows::bytes(1, kColumns));
  const QuantizedRows quantized = QuantizedRows::at(rows.data(), 1, kColumns);
  measure("quantize_row",
          [&] { kernels.quantize_row(x.data(), kColumns, kExcessRatio, quantized, 0); });
  const std::vector<float> outstanding = with_excesses(x);
  measure("quantize_row with excesses",
          [&] { kernels.quantize_row(outstanding.data(), kColumns, kExcessRatio, quantized, 0); });
  measure("rms_norm", [&] { kernels.rms_norm(x.data(), x.data(), kColumns, 1e-5F, y.data()); });
  measure("glu", [&] { kernels.glu(x.data(), x.data(), kColumns, Gate::kSilu, y.data()); });
}

void measure_turns(const CpuKernels& kernels) {
  const std::vector<float> angles(64, 0.5F);
  const Rotation rotation{angles.data(), angles.data() + 32, 64, false};
  for (const KvFormat format : {KvFormat::kF16, KvFormat::kQ8, KvFormat::kQ8Q4, KvFormat::kQ4}) {
    const KvLayout layout = make_kv_layout(format, 1, 64, 64, 1);
    const AlignedBuffer tile = memory_of(layout.layer_bytes),
                        turned = memory_of(layout.layer_bytes),
                        scratch = memory_of(64 * kTileTokens * sizeof(float));
    const std::vector<float> rows = random_values(kTileTokens * 64);
    std::vector<std::int64_t> slots(kTileTokens);
    std::iota(slots.begin(), slots.end(), 0);
    const Remainders remainders(layout, kTileTokens);
    kernels.store_kv_rows(layout, tile.data(), 0, slots.data(), kTileTokens, rows.data(),
                          rows.data(), remainders.rows.data());
    measure(std::string("turn ") + kv_format_name(format), [&] {
      kernels.turn_key_tile(layout, tile.data(), rotation, turned.data(),
                            reinterpret_cast<float*>(scratch.data()));
    });
  }
}

void measure_attention(const CpuKernels& kernels) {
  const AttentionProblem problem = AttentionProblem::random(
      {.head_count = 6, .kv_head_count = 2, .key_dim = 64, .value_dim = 64, .scale = 0.125F}, 528,
      1);
  for (const KvFormat format : {KvFormat::kF16, KvFormat::kQ8, KvFormat::kQ8Q4, KvFormat::kQ4}) {
    const PagedArena arena(problem, format, 16, 1);
    for (const std::uint32_t count : {1U, 16U}) {
      std::vector<Position> positions(count);
      std::iota(positions.begin(), positions.end(), static_cast<Position>(problem.length - count));
      const AttentionSequence sequence{arena.table.data(), 0, count};
      std::vector<float> output(count * problem.output_row());
      AttentionCall call;
      call.shape = problem.shape;
      call.layout = arena.layout;
      call.kv = arena.bytes.data();
      call.query = problem.query.data();
      call.output = output.data();
      call.positions = positions.data();
      call.sequences = &sequence;
      call.block_size = arena.block_size;
      std::vector<RemainderRow> seen;
      for (const Position position : positions)
        arena.remainders.append_seen(static_cast<std::uint32_t>(position), seen);
      call.remainders = seen.data();
      AttentionPlan plan;
      plan_attention({&sequence, 1}, positions.data(), problem.shape, 1, plan);
      const AlignedBuffer scratch =
          memory_of(attention_scratch_floats(problem.shape) * sizeof(float));
      measure(
          std::string("attention ") + kv_format_name(format) + ", rows " + std::to_string(count),
          [&] {
            for (const AttentionTask& task : plan.tasks) {
              kernels.attention(format)(call, plan, task, reinterpret_cast<float*>(scratch.data()));
            }
          });
    }
  }
}

int run(std::string_view name) {
  const auto set = instruction_set_named(name);
  if (!set) return 2;
  if (!is_available(*set)) return 3;
  const CpuKernels& kernels = cpu_kernels(*set);
  measure_products(kernels);
  measure_row_operations(kernels);
  measure_turns(kernels);
  measure_attention(kernels);
  return 0;
}

}  // namespace
}  // namespace refrain::kernels

int main(int argc, char** argv) {
  return argc == 2 ? refrain::kernels::run(argv[1]) : 2;
}
