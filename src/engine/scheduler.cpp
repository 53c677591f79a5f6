#include "engine/scheduler.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"

namespace refrain::engine {
namespace {

// One call of schedule(): the rows given so far and what is left of the budget.
class Allocation {
 public:
  Allocation(std::span<const Runnable> runnables, std::uint32_t budget)
      : runnables_(runnables), rows_(runnables.size(), 0), left_(budget) {
    for (std::size_t i = 0; i < runnables.size(); ++i) {
      if (runnables[i].pending_rows == 0) continue;
      (runnables[i].decoding ? decodes_ : prefills_).push_back(i);
    }
  }

  void serve_decodes() {
    const std::uint32_t kept =
        prefills_.empty() ? 0 : std::min(left_ - 1, std::max<std::uint32_t>(1, left_ / 8));
    std::sort(decodes_.begin(), decodes_.end(), [&](std::size_t a, std::size_t b) {
      return std::tuple(runnables_[a].last_turn, a) < std::tuple(runnables_[b].last_turn, b);
    });
    for (const std::size_t i : decodes_)
      if (left_ > kept) give(i, 1);
  }

  void serve_prefills() {
    if (prefills_.empty()) return;
    std::sort(prefills_.begin(), prefills_.end(), [&](std::size_t a, std::size_t b) {
      return runnables_[a].age_order < runnables_[b].age_order;
    });
    const std::size_t oldest = prefills_.front();
    give(oldest, left_ - left_ / 2);
    std::sort(prefills_.begin() + 1, prefills_.end(), [&](std::size_t a, std::size_t b) {
      return std::tuple(runnables_[a].pending_rows, runnables_[a].age_order) <
             std::tuple(runnables_[b].pending_rows, runnables_[b].age_order);
    });
    for (std::size_t i = 1; i < prefills_.size(); ++i) give(prefills_[i], left_);
    give(oldest, left_);
  }

  std::vector<Share> shares() const {
    std::vector<Share> served;
    for (const std::vector<std::size_t>* group : {&decodes_, &prefills_})
      for (const std::size_t i : *group)
        if (rows_[i] > 0) served.push_back(Share{i, rows_[i]});
    return served;
  }

 private:
  void give(std::size_t i, std::uint32_t at_most) {
    std::uint32_t count = std::min({at_most, left_, runnables_[i].pending_rows - rows_[i]});
    if (runnables_[i].scores_prompt && !runnables_[i].decoding) {
      count = std::min(count, scored_left_);
      scored_left_ -= count;
    }
    rows_[i] += count;
    left_ -= count;
  }

  std::span<const Runnable> runnables_;
  std::vector<std::uint32_t> rows_;
  std::vector<std::size_t> decodes_;
  std::vector<std::size_t> prefills_;
  std::uint32_t left_;
  std::uint32_t scored_left_ = kMaxScoredRows;
};

}  // namespace

std::vector<Share> schedule(std::span<const Runnable> runnables, std::uint32_t budget) {
  CHECK(budget > 0, "a step has room for at least one row");
  Allocation allocation(runnables, budget);
  allocation.serve_decodes();
  allocation.serve_prefills();
  return allocation.shares();
}

}  // namespace refrain::engine
