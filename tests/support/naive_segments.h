// NaiveSegments: what a search for stored text should find, in the plainest way: every stored block
// against every place of the query, extended token by token, no hashes. Compared with find_runs()
// by the property test. One thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "kv/prefix_tree.h"
#include "kv/segment_search.h"

namespace refrain::test {

using Interval = std::pair<std::uint32_t, std::uint32_t>;  // [first, second) of the query

class NaiveSegments {
 public:
  explicit NaiveSegments(const kv::PrefixTree& tree) : tree_(tree), nodes_(tree.nodes()) {}

  std::vector<Interval> find(const Hash128& space, std::span<const TokenId> query,
                             std::uint32_t min_length) const {
    std::set<Interval> maximal;
    for (kv::NodeId node : nodes_) {
      const auto stored = tree_.tokens_of(node);
      if (!tree_.is_full(node) || tree_.space_of(node) != space) continue;
      for (std::size_t at = 0; at + stored.size() <= query.size(); ++at) {
        if (!std::ranges::equal(query.subspan(at, stored.size()), stored)) continue;
        const std::size_t end = at + stored.size();
        maximal.emplace(at - to_the_left(node, query.first(at)),
                        end + to_the_right(node, query.subspan(end)));
      }
    }
    return longest_first({maximal.begin(), maximal.end()}, query.size(), min_length);
  }

  // Empty if the run holds the query's tokens, from its last row backwards.
  const char* check_source(const Hash128& space, std::span<const TokenId> query,
                           const kv::FoundRun& run) const {
    kv::NodeId node = run.last;
    std::uint32_t row = run.last_row;
    for (std::uint32_t i = run.end; i > run.begin; --i) {
      if (node == kv::kNoNode) return "its chain ends too early";
      if (tree_.space_of(node) != space) return "it leads into another space";
      if (row >= tree_.tokens_of(node).size()) return "it names a row that holds nothing";
      if (tree_.tokens_of(node)[row] != query[i - 1]) return "it holds other tokens";
      if (row == 0) node = tree_.parent_of(node);
      row = (row == 0 ? tree_.block_size() : row) - 1;
    }
    return "";
  }

 private:
  std::size_t to_the_left(kv::NodeId node, std::span<const TokenId> query) const {
    std::size_t common = 0;
    for (node = tree_.parent_of(node); node != kv::kNoNode; node = tree_.parent_of(node)) {
      const auto stored = tree_.tokens_of(node);
      for (std::size_t i = stored.size(); i > 0; --i, ++common)
        if (common == query.size() || query[query.size() - 1 - common] != stored[i - 1])
          return common;
    }
    return common;
  }
  std::size_t to_the_right(kv::NodeId node, std::span<const TokenId> query) const {
    std::size_t best = 0;
    for (kv::NodeId child : nodes_) {
      if (tree_.parent_of(child) != node) continue;
      const auto stored = tree_.tokens_of(child);
      const std::size_t common =
          static_cast<std::size_t>(std::ranges::mismatch(stored, query).in1 - stored.begin());
      const bool goes_on = common == tree_.block_size();
      best = std::max(best, common + (goes_on ? to_the_right(child, query.subspan(common)) : 0));
    }
    return best;
  }

  static std::vector<Interval> longest_first(std::vector<Interval> runs, std::size_t query_size,
                                             std::uint32_t min_length) {
    std::ranges::sort(runs, [](const Interval& a, const Interval& b) {
      const std::uint32_t length_a = a.second - a.first;
      const std::uint32_t length_b = b.second - b.first;
      return length_a != length_b ? length_a > length_b : a.first > b.first;
    });
    std::vector<bool> taken(query_size, false);
    std::vector<Interval> chosen;
    for (auto [begin, end] : runs) {
      while (begin < end && taken[begin]) ++begin;
      std::uint32_t free_end = begin;
      while (free_end < end && !taken[free_end]) ++free_end;
      if (free_end - begin < min_length) continue;
      std::fill(taken.begin() + begin, taken.begin() + free_end, true);
      chosen.emplace_back(begin, free_end);
    }
    std::ranges::sort(chosen);
    return chosen;
  }

  const kv::PrefixTree& tree_;
  const std::vector<kv::NodeId> nodes_;
};

}  // namespace refrain::test
