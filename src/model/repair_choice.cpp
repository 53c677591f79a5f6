// See repair_choice.h.
#include "model/repair_choice.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/check.h"

namespace refrain::model {
namespace {

// The first rows of a run that are its head, and where they end.
Position head_end(const MovedRun& run, std::uint32_t head_rows) {
  const auto length = static_cast<std::uint32_t>(run.end - run.begin);
  return run.begin + static_cast<Position>(std::min(length, head_rows));
}

// Moves the `count` rows attended to most to the front.
void put_first(std::vector<Position>& rows, std::size_t count, std::span<const float> attention) {
  // NaN has no place in an order; who judges the attention refuses it.
  const auto weight = [&](Position row) {
    const float value = attention[static_cast<std::size_t>(row)];
    return std::isnan(value) ? 0.0F : value;
  };
  const auto more = [&](Position a, Position b) {
    const float of_a = weight(a), of_b = weight(b);
    return of_a != of_b ? of_a > of_b : a < b;
  };
  std::partial_sort(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(count), rows.end(),
                    more);
}

}  // namespace

RepairRules rules_of(RepairRung rung) {
  constexpr std::uint32_t kHeadRows = 32, kLeast = 2;
  switch (rung) {
    case RepairRung::kMoved:
      return {};
    case RepairRung::kHeads:
      return {.head_rows = kHeadRows};
    case RepairRung::kAttended:
      return {.head_rows = kHeadRows, .attended_share = 0.15, .attended_least = kLeast};
    case RepairRung::kMore:
      return {.head_rows = kHeadRows, .attended_share = 0.35, .attended_least = kLeast};
    case RepairRung::kAll:
      return {.head_rows = UINT32_MAX};
  }
  return {};
}

std::string_view name_of(RepairRung rung) {
  constexpr std::string_view kNames[] = {"moved", "heads", "attended", "more", "all"};
  return kNames[static_cast<std::size_t>(rung)];
}

bool needs_mass(RepairRung rung) {
  return rules_of(rung).attended_share > 0.0;
}

std::uint32_t first_looking_layer(std::uint32_t layer_count) {
  return layer_count * 2 / 3;
}

std::vector<float> attention_per_key(const AttentionMass& mass) {
  std::vector<float> sums(mass.length, 0.0F);
  if (mass.length == 0) return sums;
  for (std::size_t at = 0; at < mass.weights.size(); at += mass.length) {
    for (std::size_t key = 0; key < mass.length; ++key) sums[key] += mass.weights[at + key];
  }
  return sums;
}

std::vector<Position> choose_repair(std::span<const MovedRun> runs,
                                    std::span<const float> attention, const RepairRules& rules) {
  std::vector<Position> chosen, others;
  std::size_t moved = 0;
  for (const MovedRun& run : runs) {
    moved += static_cast<std::size_t>(run.end - run.begin);
    for (Position row = run.begin; row < head_end(run, rules.head_rows); ++row)
      chosen.push_back(row);
  }
  if (rules.attended_share > 0.0) {
    auto wanted =
        static_cast<std::size_t>(std::ceil(rules.attended_share * static_cast<double>(moved)));
    for (const MovedRun& run : runs) {
      CHECK(static_cast<std::size_t>(run.end) <= attention.size(), "rows without attention");
      std::vector<Position> rows;
      for (Position row = head_end(run, rules.head_rows); row < run.end; ++row) rows.push_back(row);
      const std::size_t least = std::min<std::size_t>({rows.size(), rules.attended_least, wanted});
      put_first(rows, least, attention);
      const auto rest = rows.begin() + static_cast<std::ptrdiff_t>(least);
      chosen.insert(chosen.end(), rows.begin(), rest);
      others.insert(others.end(), rest, rows.end());
      wanted -= least;
    }
    wanted = std::min(wanted, others.size());
    put_first(others, wanted, attention);
    chosen.insert(chosen.end(), others.begin(),
                  others.begin() + static_cast<std::ptrdiff_t>(wanted));
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

std::vector<Position> repair_pass(std::span<const Position> chosen,
                                  std::span<const Position> fresh) {
  std::vector<Position> rows;
  std::set_union(chosen.begin(), chosen.end(), fresh.begin(), fresh.end(),
                 std::back_inserter(rows));
  return rows;
}

std::vector<Position> second_pass(std::span<const Position> chosen,
                                  std::span<const Position> fresh) {
  if (chosen.empty()) return {};
  const auto behind = std::lower_bound(fresh.begin(), fresh.end(), chosen.front());
  return repair_pass(chosen, {behind, fresh.end()});
}

}  // namespace refrain::model
