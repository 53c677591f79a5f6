// Plans attention tasks and picks the kernels for this processor, once per process.
#include "kernels/paged_attention.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "base/check.h"
#include "base/str.h"
#include "kernels/attention_scratch.h"

namespace refrain::kernels {
namespace {

// Query rows (rows x heads of a group) that share one expansion of the keys.
constexpr std::uint32_t kQueriesPerTask = 192;
// Only tasks of few query rows are cut along the keys: others are many, and their records large.
constexpr std::uint32_t kQueriesToShare = 32;
// A task that costs more than this part of a thread's work may leave the others waiting.
constexpr std::uint64_t kTasksPerThread = 4;
// Value columns are padded to this at most, whatever the format.
constexpr std::uint32_t kMostPadded = 32;

std::uint32_t group_size(const AttentionShape& shape) {
  return shape.head_count / shape.kv_head_count;
}

std::uint32_t rows_per_task(const AttentionShape& shape) {
  return std::max(1U, kQueriesPerTask / group_size(shape));
}

std::uint32_t rounded_up(std::uint32_t value, std::uint32_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// That a head sees beyond those of the table; as unsigned numbers wrap where they are fewer.
std::uint32_t most_more_rows(const AttentionSequence& sequence) {
  const AttentionView* view = sequence.view;
  return view == nullptr ? 0 : view->most_tiles * kTileTokens - (view->end - view->begin);
}

std::uint64_t cost(const AttentionTask& task) {
  return std::uint64_t{task.end_split - task.first_split} * task.row_count;
}

// Replaces a task by several with parts of its splits.
void share_task(const AttentionTask& whole, std::uint64_t pieces, const AttentionShape& shape,
                AttentionPlan& plan, std::size_t& floats) {
  const std::uint32_t splits = whole.end_split;
  const auto count = static_cast<std::uint32_t>(std::min<std::uint64_t>(pieces, splits));
  AttentionTask part = whole;
  part.share = static_cast<std::uint32_t>(plan.shares.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    part.first_split = static_cast<std::uint32_t>(std::uint64_t{splits} * i / count);
    part.end_split = static_cast<std::uint32_t>(std::uint64_t{splits} * (i + 1) / count);
    plan.tasks.push_back(part);
  }
  plan.shares.push_back({floats, count});
  const std::size_t record = rounded_up(shape.value_dim, kMostPadded) + kRecordExtra;
  floats += record * splits * whole.row_count * group_size(shape);
}

void share_expensive_tasks(const AttentionShape& shape, std::uint32_t thread_count,
                           AttentionPlan& plan) {
  std::uint64_t total = 0;
  for (const AttentionTask& task : plan.tasks) total += cost(task);
  const std::uint64_t most = std::max<std::uint64_t>(1, total / (thread_count * kTasksPerThread));
  std::size_t floats = 0;
  const std::size_t count = plan.tasks.size();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const AttentionTask task = plan.tasks[i];
    const bool few_rows = task.row_count * group_size(shape) <= kQueriesToShare;
    if (thread_count > 1 && few_rows && task.end_split > 1 && cost(task) > most) {
      share_task(task, (cost(task) + most - 1) / most, shape, plan, floats);
    } else {
      plan.tasks[kept++] = task;
    }
  }
  plan.tasks.erase(plan.tasks.begin() + static_cast<std::ptrdiff_t>(kept),
                   plan.tasks.begin() + static_cast<std::ptrdiff_t>(count));
  if (plan.partials.size() < floats) plan.partials.resize(floats);
  plan.pending.clear();
  for (const AttentionShare& share : plan.shares) plan.pending.push_back(share.task_count);
}

}  // namespace

void plan_attention(std::span<const AttentionSequence> sequences, const Position* positions,
                    const AttentionShape& shape, std::uint32_t thread_count, AttentionPlan& plan) {
  CHECK(shape.kv_head_count > 0 && shape.head_count % shape.kv_head_count == 0,
        "query heads are not a multiple of KV heads");
  plan.tasks.clear();
  plan.shares.clear();
  const std::uint32_t step = rows_per_task(shape);
  for (std::uint32_t s = 0; s < sequences.size(); ++s) {
    const std::uint32_t end = sequences[s].first_row + sequences[s].row_count;
    for (std::uint32_t row = sequences[s].first_row; row < end; row += step) {
      const std::uint32_t count = std::min(step, end - row);
      const auto last =
          static_cast<std::uint32_t>(positions[row + count - 1]) + most_more_rows(sequences[s]);
      for (std::uint32_t head = 0; head < shape.kv_head_count; ++head) {
        plan.tasks.push_back({s, head, row, count, 0, last / kSplitKeys + 1, kNoShare});
      }
    }
  }
  share_expensive_tasks(shape, thread_count, plan);
  std::stable_sort(plan.tasks.begin(), plan.tasks.end(),
                   [](const auto& a, const auto& b) { return cost(a) > cost(b); });
}

AttentionScratch attention_scratch(const AttentionShape& shape) {
  AttentionScratch parts;
  std::size_t next = 0;
  const auto place = [&next](std::size_t floats) {
    const std::size_t at = next;
    next += (floats + 15) / 16 * 16;
    return at;
  };
  const std::size_t columns = rounded_up(shape.value_dim, kMostPadded);
  const std::size_t key_dim = rounded_up(shape.key_dim, 16);
  const std::size_t queries =
      rounded_up(rows_per_task(shape) * group_size(shape), kQueryGroup) + kQueryGroup;
  parts.queries = place(queries * (key_dim + 4));
  parts.scores = place(std::size_t{kQueryGroup} * kSplitKeys);
  parts.weights = place(std::size_t{kQueryGroup} * kSplitKeys / 2);
  parts.records = place(kQueryGroup * (columns + kRecordExtra));
  parts.states = place(queries * (columns + kRecordExtra));
  parts.keys = place(kSplitKeys * key_dim);
  parts.values = place(kSplitKeys * columns);
  parts.total = next;
  return parts;
}

std::size_t attention_scratch_floats(const AttentionShape& shape) {
  return attention_scratch(shape).total;
}

bool end_shared_task(const AttentionPlan& plan, std::uint32_t share) {
  std::atomic_ref<std::uint32_t> pending(plan.pending[share]);
  if (pending.fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
  pending.store(plan.shares[share].task_count, std::memory_order_relaxed);
  return true;
}

}  // namespace refrain::kernels
