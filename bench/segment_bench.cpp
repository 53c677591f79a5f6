// Speed of finding stored text in a prompt, the exact prefix and the runs behind it: processor time
// of one plan, best of 50, for a prompt and for one twice as long. One thread.
//   segment_bench [STORED_TOKENS [PROMPT_TOKENS]]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "support/segment_problem.h"

namespace {

using refrain::TokenList;
using refrain::kv::ReusePlan;
using refrain::kv::ReuseScope;
using refrain::test::SegmentProblem;

double plan_microseconds(const SegmentProblem& problem, const TokenList& prompt, ReuseScope scope) {
  double best = 1e9;
  for (int round = 0; round < 50; ++round) {
    timespec begin{}, end{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    const ReusePlan plan = problem.plan(prompt, scope);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    best = std::min(best, static_cast<double>(end.tv_sec - begin.tv_sec) * 1e6 +
                              static_cast<double>(end.tv_nsec - begin.tv_nsec) * 1e-3);
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t stored = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1'000'000;
  const std::size_t count = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 8192;
  SegmentProblem problem(stored);
  const auto once = problem.prompts(count), twice = problem.prompts(2 * count);
  std::printf("%zu tokens stored, prompts of %zu tokens\n", stored, count);
  std::printf("%-28s %6s %7s %10s %10s %8s\n", "prompt", "runs", "moved", "exact us", "both us",
              "x2 time");
  for (std::size_t i = 0; i < once.size(); ++i) {
    const ReusePlan plan = problem.plan(once[i].tokens, ReuseScope::kSegments);
    std::uint32_t moved = 0;
    for (const auto& run : plan.runs) moved += run.length;
    const double exact = plan_microseconds(problem, once[i].tokens, ReuseScope::kExact);
    const double both = plan_microseconds(problem, once[i].tokens, ReuseScope::kSegments);
    const double longer = plan_microseconds(problem, twice[i].tokens, ReuseScope::kSegments);
    std::printf("%-28s %6zu %7u %10.1f %10.1f %8.2f\n", once[i].name.c_str(), plan.runs.size(),
                moved, exact, both, longer / both);
  }
  return 0;
}
