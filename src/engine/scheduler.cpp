#include "engine/scheduler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "base/check.h"

namespace refrain::engine {
namespace {

using Group = std::vector<std::size_t>;

// One step: the rows given so far and what is left of the budget.
class Allocation {
 public:
  // `classes`: long prompts have their share and no more; else all prompts are alike.
  Allocation(std::span<const Runnable> runnables, const StepRules& rules, bool classes)
      : runnables_(runnables), rules_(rules), rows_(runnables.size(), 0), left_(rules.budget) {
    for (std::size_t i = 0; i < runnables.size(); ++i) {
      if (runnables[i].pending_rows == 0) continue;
      if (runnables[i].decoding) {
        decodes_.push_back(i);
      } else {
        (classes && is_far(i) ? far_ : near_).push_back(i);
      }
    }
  }

  bool both_classes_wait() const { return !near_.empty() && !far_.empty(); }
  // What long prompts may cost beside short sequences.
  double long_share() const { return rules_.budget * (rules_.long_percent / 100.0); }

  void serve_decodes(bool throttled_too) {
    const bool prompts_wait = !near_.empty() || !far_.empty();
    const std::uint32_t kept =
        prompts_wait ? std::min(left_ - 1, std::max<std::uint32_t>(1, left_ / 8)) : 0;
    std::sort(decodes_.begin(), decodes_.end(), [&](std::size_t a, std::size_t b) {
      return std::tuple(runnables_[a].last_turn, a) < std::tuple(runnables_[b].last_turn, b);
    });
    const bool others = std::any_of(decodes_.begin(), decodes_.end(),
                                    [&](std::size_t i) { return !runnables_[i].throttled; });
    for (const std::size_t i : decodes_) {
      if (runnables_[i].throttled && others && !throttled_too) continue;
      if (left_ > kept) give(i, 1);
    }
  }

  // `kept` rows are left over for the far ones.
  void serve_near(std::uint32_t kept) {
    if (near_.empty() || left_ <= kept) return;
    const std::uint32_t set_aside = kept;
    left_ -= set_aside;
    const std::uint32_t half = left_ - left_ / 2;
    serve(near_, half, [&](std::size_t i, std::uint32_t at_most) { give(i, at_most); });
    left_ += set_aside;
  }

  // Returns what was spent. However deep they are, the step shall be worth its while.
  double serve_far() {
    if (far_.empty()) return 0;
    const std::size_t oldest = far_.front();
    const double cost = std::max(
        long_share(),
        rows_cost(Scheduler::kMinLongRows, runnables_[oldest].depth, rules_.attention_unit_tokens));
    double spent = 0;
    const auto give_cost = [&](std::size_t i, double at_most) {
      const std::uint32_t depth = runnables_[i].depth + rows_[i];
      const double unit = rules_.attention_unit_tokens;
      const std::uint32_t before = rows_[i];
      give(i, rows_within(std::min(at_most, cost - spent), depth, unit));
      spent += rows_cost(rows_[i] - before, depth, unit);
    };
    serve(far_, cost / 2, give_cost);
    return spent;
  }

  // Rows that the oldest long prompt could have of its share.
  std::uint32_t rows_of_share() const {
    return far_.empty() ? 0
                        : std::min(left_ / 2, rows_within(long_share(), runnables_[far_[0]].depth,
                                                          rules_.attention_unit_tokens));
  }

  std::vector<Share> shares() const {
    std::vector<Share> served;
    for (const Group* group : {&decodes_, &near_, &far_})
      for (const std::size_t i : *group)
        if (rows_[i] > 0) served.push_back(Share{i, rows_[i]});
    return served;
  }

 private:
  // A long prompt that more than a share is left of: the end of one is as good as a short one.
  bool is_far(std::size_t i) const {
    const Runnable& runnable = runnables_[i];
    return runnable.is_long && rows_cost(runnable.pending_rows, runnable.depth,
                                         rules_.attention_unit_tokens) > long_share();
  }

  // `half` to the oldest, then all that is there to the shortest, then to the oldest. `give_of`
  // bounds what it gives by what is left.
  template <typename Amount, typename Give>
  void serve(Group& group, Amount half, const Give& give_of) {
    const auto everything = std::numeric_limits<Amount>::max();
    std::sort(group.begin(), group.end(), [&](std::size_t a, std::size_t b) {
      return runnables_[a].age_order < runnables_[b].age_order;
    });
    const std::size_t oldest = group.front();
    give_of(oldest, half);
    std::sort(group.begin() + 1, group.end(), [&](std::size_t a, std::size_t b) {
      return std::tuple(runnables_[a].pending_rows, runnables_[a].age_order) <
             std::tuple(runnables_[b].pending_rows, runnables_[b].age_order);
    });
    for (std::size_t i = 1; i < group.size(); ++i) give_of(group[i], everything);
    give_of(oldest, everything);
  }

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
  const StepRules& rules_;
  std::vector<std::uint32_t> rows_;
  Group decodes_, near_, far_;
  std::uint32_t left_;
  std::uint32_t scored_left_ = kMaxScoredRows;
};

}  // namespace

// The sum over i of 1 + (depth + i) / unit.
double rows_cost(std::uint32_t rows, std::uint32_t depth, double unit) {
  if (unit <= 0) return rows;
  return rows * (1 + (depth + rows / 2.0) / unit);
}

std::uint32_t rows_within(double cost, std::uint32_t depth, double unit) {
  if (cost <= 0) return 0;
  const double first = unit > 0 ? 1 + depth / unit : 1;
  // rows^2 / (2 unit) + rows x first = cost
  const double rows = unit > 0 ? unit * (std::sqrt(first * first + 2 * cost / unit) - first) : cost;
  return static_cast<std::uint32_t>(std::min(rows + 1e-9, 4e9));
}

Scheduler::Scheduler(const StepRules& rules) : rules_(rules) {
  CHECK(rules.budget > 0, "a step has room for at least one row");
  CHECK(rules.long_percent > 0 && rules.long_percent <= 100, "a share of the step in percent");
}

std::vector<Share> Scheduler::next(std::span<const Runnable> runnables) {
  const bool short_about =
      std::any_of(runnables.begin(), runnables.end(),
                  [](const Runnable& each) { return each.pending_rows > 0 && !each.is_long; });
  steps_without_short_ = short_about ? 0 : std::min(steps_without_short_ + 1, kShortMemorySteps);
  const bool classes = rules_.long_percent < 100 && steps_without_short_ < kShortMemorySteps;
  Allocation step(runnables, rules_, classes);
  step.serve_decodes(/*throttled_too=*/++steps_ % 2 == 0);
  const bool is_due = owed_cost_ >= rules_.budget;
  step.serve_near(is_due ? step.rows_of_share() : 0);
  const double spent = step.serve_far();
  owed_cost_ = step.both_classes_wait() ? std::clamp(owed_cost_ + step.long_share() - spent, 0.0,
                                                     static_cast<double>(rules_.budget))
                                        : 0;
  return step.shares();
}

}  // namespace refrain::engine
