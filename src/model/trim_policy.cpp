// See trim_policy.h.
#include "model/trim_policy.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <tuple>

#include "base/check.h"
#include "kernels/kv_layout.h"

namespace refrain::model {
namespace {

constexpr std::array kPolicies = {
    TrimPolicy{.name = "window"},
    TrimPolicy{.name = "heavy_hitters",
               .look = TrimLook::kLastRows,
               .mass = MassKind::kHeadSum,
               .recent_share = 0.25,
               .reach = 3},
    TrimPolicy{.name = "kvzip",
               .look = TrimLook::kRepetition,
               .mass = MassKind::kHeadMax,
               .recent_share = 0.125,
               .choice = TrimChoice::kAllHeads,
               .weighs_surprise = true},
    TrimPolicy{.name = "expected_attention", .look = TrimLook::kQueries, .recent_share = 0.125},
    TrimPolicy{.name = "prefix_importance",
               .look = TrimLook::kLastRows,
               .mass = MassKind::kHeadSum,
               .recent_share = 0.25,
               .choice = TrimChoice::kBlocks},
};

constexpr std::uint32_t kTileRows = kernels::kTileTokens;

std::uint32_t blocks_of(std::uint32_t tokens, std::uint32_t block_size) {
  return (tokens + block_size - 1) / block_size;
}

std::uint32_t sink_blocks(const TrimBounds& bounds) {
  return std::max(1U, blocks_of(bounds.head_rows, bounds.block_size));
}

std::vector<float> largest_around(std::span<const float> scores, std::uint32_t reach) {
  std::vector<float> best(scores.size());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const std::size_t begin = i < reach ? 0 : i - reach;
    const std::size_t end = std::min(scores.size(), i + reach + 1);
    best[i] = scores[begin];
    for (std::size_t j = begin; j < end; ++j)
      if (scores[j] > best[i] || std::isnan(best[i])) best[i] = scores[j];
  }
  return best;
}

}  // namespace

std::span<const TrimPolicy> trim_policies() {
  return kPolicies;
}

const TrimPolicy* trim_policy_named(std::string_view name) {
  for (const TrimPolicy& policy : kPolicies)
    if (policy.name == name) return &policy;
  return nullptr;
}

std::span<const float> TrimScores::of(std::uint32_t layer, std::uint32_t head) const {
  CHECK(layer < layer_count && head < kv_head_count, "scores of a head there is not");
  return std::span(values).subspan((std::size_t{layer} * kv_head_count + head) * length, length);
}

TrimScores TrimScores::resized(std::uint32_t rows) const {
  TrimScores other{layer_count, kv_head_count, rows, {}};
  other.values.assign(std::size_t{layer_count} * kv_head_count * rows, 0.0F);
  const std::uint32_t common = std::min(rows, length);
  for (std::size_t head = 0; head < std::size_t{layer_count} * kv_head_count; ++head)
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(head * length), common,
                other.values.begin() + static_cast<std::ptrdiff_t>(head * rows));
  return other;
}

void TrimScores::add(const AttentionMass& mass, MassKind kind, std::uint32_t begin,
                     std::uint32_t end) {
  CHECK(kind != MassKind::kSum && mass.length > 0 &&
            mass.weights.size() == std::size_t{layer_count} * kv_head_count * mass.length,
        "attention mass of another kind or model");
  values.resize(std::size_t{layer_count} * kv_head_count * length, 0.0F);
  end = std::min({end, length, mass.length});
  for (std::size_t head = 0; head < std::size_t{layer_count} * kv_head_count; ++head) {
    const float* from = mass.weights.data() + head * mass.length;
    float* to = values.data() + head * length;
    for (std::uint32_t key = begin; key < end; ++key)
      to[key] = kind == MassKind::kHeadMax ? std::max(to[key], from[key]) : to[key] + from[key];
  }
}

// The last block may hold a single row, so one more than its rows need.
std::uint32_t least_recent_blocks(const TrimBounds& bounds) {
  return std::max(2U, blocks_of(bounds.window, bounds.block_size) + 1);
}

std::uint32_t least_trim_budget(const TrimBounds& bounds) {
  return (sink_blocks(bounds) + least_recent_blocks(bounds) + 1) * bounds.block_size;
}

std::optional<TrimShape> trim_shape(const TrimPolicy& policy, std::uint32_t rows,
                                    std::uint32_t budget_tokens, std::uint32_t room_tokens,
                                    const TrimBounds& bounds,
                                    std::span<const std::uint32_t> turn_begin) {
  const std::uint32_t have = blocks_of(rows, bounds.block_size);
  const std::uint32_t most = budget_tokens / bounds.block_size;
  if (have <= most) return std::nullopt;
  const std::uint32_t sinks = sink_blocks(bounds);
  const std::uint32_t least_recent = least_recent_blocks(bounds);
  CHECK(most > sinks + least_recent, "a budget below the least one");
  const std::uint32_t room =
      std::min({blocks_of(room_tokens, bounds.block_size), most / 4, most - sinks - least_recent});
  const std::uint32_t kept = most - room;
  const auto share = static_cast<std::uint32_t>(policy.recent_share * kept);
  std::uint32_t recent = std::clamp(share, least_recent, kept - sinks);
  std::uint32_t middle = kept - sinks - recent;
  const std::uint32_t passed = blocks_before_turn((have - recent) * bounds.block_size, recent,
                                                  bounds.block_size, turn_begin);
  if (recent - passed >= least_recent) {
    recent -= passed;
    if (policy.look != TrimLook::kNone) middle += passed;
  }
  return TrimShape{sinks, middle, have - recent};
}

std::uint32_t blocks_before_turn(std::uint32_t first_row, std::uint32_t blocks,
                                 std::uint32_t block_size,
                                 std::span<const std::uint32_t> turn_begin) {
  const auto turn = std::lower_bound(turn_begin.begin(), turn_begin.end(), first_row);
  if (turn == turn_begin.end()) return 0;
  const std::uint32_t passed = (*turn - first_row) / block_size;
  return passed <= blocks / 4 ? passed : 0;
}

std::vector<std::uint32_t> choose_rows(std::span<const float> scores, std::uint32_t count,
                                       std::uint32_t reach) {
  const std::vector<float> around = largest_around(scores, reach);
  const auto value = [&](std::uint32_t row) {
    return std::isnan(around[row]) ? -1.0F : around[row];
  };
  std::vector<std::uint32_t> rows(scores.size());
  std::iota(rows.begin(), rows.end(), 0U);
  count = std::min(count, static_cast<std::uint32_t>(rows.size()));
  const auto end = rows.begin() + static_cast<std::ptrdiff_t>(count);
  std::nth_element(rows.begin(), end, rows.end(), [&](std::uint32_t a, std::uint32_t b) {
    const float of_a = value(a), of_b = value(b);
    return of_a != of_b ? of_a > of_b : a > b;
  });
  rows.resize(count);
  std::sort(rows.begin(), rows.end());
  return rows;
}

std::vector<std::uint32_t> spread_tiles(const TrimScores& scores, std::uint32_t tiles,
                                        TrimChoice choice) {
  const std::uint32_t heads = scores.layer_count * scores.kv_head_count;
  const std::uint32_t head_tiles = scores.length / kTileRows;
  tiles = std::min(tiles, heads * head_tiles);
  if (choice != TrimChoice::kAllHeads) {
    std::vector<std::uint32_t> counts(heads, tiles / heads);
    for (std::uint32_t i = 0; i < tiles % heads; ++i) ++counts[i];
    return counts;
  }
  struct Tile {
    float score = 0;
    std::uint32_t index = 0;  // of the head's, its best one first
    std::uint32_t head = 0;
  };
  std::vector<Tile> all;
  all.reserve(std::size_t{heads} * head_tiles);
  std::vector<float> rows;
  for (std::uint32_t head = 0; head < heads; ++head) {
    const auto from = scores.of(head / scores.kv_head_count, head % scores.kv_head_count);
    rows.assign(from.begin(), from.end());
    for (float& row : rows)
      if (std::isnan(row)) row = -1.0F;
    std::sort(rows.begin(), rows.end(), std::greater<>());
    for (std::uint32_t i = 0; i < head_tiles; ++i) {
      const auto first = rows.begin() + i * kTileRows;
      all.push_back({std::accumulate(first, first + kTileRows, 0.0F), i, head});
    }
  }
  std::nth_element(all.begin(), all.begin() + tiles, all.end(), [](const Tile& a, const Tile& b) {
    return std::tuple(-a.score, a.index, a.head) < std::tuple(-b.score, b.index, b.head);
  });
  std::vector<std::uint32_t> counts(heads, 0);
  for (std::uint32_t i = 0; i < tiles; ++i) ++counts[all[i].head];
  return counts;
}

std::vector<float> block_scores(const TrimScores& scores, std::uint32_t begin, std::uint32_t end,
                                std::uint32_t block_size) {
  std::vector<float> sums((end - begin) / block_size, 0.0F);
  for (std::uint32_t layer = 0; layer < scores.layer_count; ++layer) {
    for (std::uint32_t head = 0; head < scores.kv_head_count; ++head) {
      const std::span<const float> row = scores.of(layer, head);
      for (std::uint32_t at = begin; at < std::min(end, scores.length); ++at)
        sums[(at - begin) / block_size] += row[at];
    }
  }
  const auto heads = static_cast<float>(scores.layer_count * scores.kv_head_count);
  for (float& sum : sums) sum /= heads;
  return sums;
}

}  // namespace refrain::model
