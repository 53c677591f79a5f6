// CandidateQueue: heap and buckets give one and the same order, whatever is pushed in between.
#include "text/candidate_queue.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>
#include <utility>

namespace refrain::text {
namespace {

constexpr std::uint32_t kRankCount = 4;  // few, so that equal ranks are frequent

RC_GTEST_PROP(CandidateQueue, pops_the_lowest_rank_and_of_equal_ones_the_leftmost_place, ()) {
  CandidateQueue queue(kRankCount);
  for (const std::size_t symbol_count : {std::size_t{10}, std::size_t{100000}, std::size_t{5000}}) {
    queue.reset(symbol_count);
    std::multiset<std::pair<std::uint32_t, std::int32_t>> model;
    const int steps = *rc::gen::inRange(0, 200);
    for (int i = 0; i < steps; ++i) {
      if (!model.empty() && *rc::gen::arbitrary<bool>()) {
        const auto best = queue.pop();
        RC_ASSERT(std::pair(best.rank, best.place) == *model.begin());
        model.erase(model.begin());
      } else {
        const auto rank = *rc::gen::inRange<std::uint32_t>(0, kRankCount);
        const auto place = *rc::gen::inRange<std::int32_t>(0, 50);
        queue.push({rank, place});
        model.emplace(rank, place);
      }
      RC_ASSERT(queue.empty() == model.empty());
    }
  }  // what is left is dropped by the next reset
}

}  // namespace
}  // namespace refrain::text
