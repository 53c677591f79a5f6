// Plans attention tasks and picks the kernel for this processor, once per process.
#include "kernels/paged_attention.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/attention_variants.h"

namespace refrain::kernels {
namespace {

// Query rows (rows x heads of a group) that share one reading of the keys.
constexpr std::uint32_t kQueriesPerTask = 192;

std::uint32_t group_size(const AttentionShape& shape) {
  return shape.head_count / shape.kv_head_count;
}

std::uint32_t rows_per_task(const AttentionShape& shape) {
  return std::max(1U, kQueriesPerTask / group_size(shape));
}

std::uint32_t rounded_up(std::uint32_t value, std::uint32_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

struct Variant {
  const char* name;
  AttentionKernel* kernel;
};

Variant choose_variant() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) {
    return {"avx512", run_attention_avx512};
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("f16c")) {
    return {"avx2", run_attention_avx2};
  }
#endif
  return {"portable", run_attention_portable};
}

const Variant& variant() {
  static const Variant chosen = choose_variant();
  return chosen;
}

}  // namespace

void plan_attention(std::span<const AttentionSequence> sequences, const Position* positions,
                    const AttentionShape& shape, std::vector<AttentionTask>& tasks) {
  CHECK(shape.kv_head_count > 0 && shape.head_count % shape.kv_head_count == 0,
        "query heads are not a multiple of KV heads");
  tasks.clear();
  const std::uint32_t step = rows_per_task(shape);
  for (std::uint32_t s = 0; s < sequences.size(); ++s) {
    const std::uint32_t end = sequences[s].first_row + sequences[s].row_count;
    for (std::uint32_t row = sequences[s].first_row; row < end; row += step) {
      for (std::uint32_t head = 0; head < shape.kv_head_count; ++head) {
        tasks.push_back({s, head, row, std::min(step, end - row)});
      }
    }
  }
  const auto cost = [positions](const AttentionTask& task) {
    const auto last = static_cast<std::uint64_t>(positions[task.first_row + task.row_count - 1]);
    return (last + kSplitKeys) * task.row_count;
  };
  std::stable_sort(tasks.begin(), tasks.end(),
                   [&cost](const auto& a, const auto& b) { return cost(a) > cost(b); });
}

std::size_t attention_scratch_floats(const AttentionShape& shape) {
  const std::size_t key_dim = rounded_up(shape.key_dim, kDimPadding);
  const std::size_t value_dim = rounded_up(shape.value_dim, kDimPadding);
  const std::size_t queries = std::size_t{rows_per_task(shape)} * group_size(shape);
  return kSplitKeys * (key_dim + value_dim)       // one split of keys and values
         + kQueryBlock * std::size_t{kSplitKeys}  // scores
         + queries * (value_dim + kDimPadding)    // running output, maximum and sum
         + kDimPadding;
}

void run_attention(const AttentionCall& call, const AttentionTask& task, float* scratch) {
  variant().kernel(call, task, scratch);
}

const char* attention_variant() {
  return variant().name;
}

}  // namespace refrain::kernels
