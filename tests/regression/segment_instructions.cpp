// Plans prompts one after the other over a ledger full of texts, for instruction_count_test.py,
// which counts the instructions between entry and return of refrain_measured() under valgrind. Each
// prompt comes in two lengths: what is linear has twice the count for twice the tokens.
//
//   segment_instructions search      names of what ran, one a line, in order
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>

#include "support/segment_problem.h"

// Not inlined and with C linkage: valgrind finds it by this name.
extern "C" __attribute__((noinline)) void refrain_measured(const std::function<void()>& work) {
  work();
  asm volatile("" ::: "memory");
}

namespace {

void measure(const std::string& name, const std::function<void()>& work) {
  std::printf("%s\n", name.c_str());
  refrain_measured(work);
}

}  // namespace

int main(int argc, char** argv) {
  using refrain::test::SegmentProblem;
  if (argc != 2 || std::string_view(argv[1]) != "search") return 2;
  SegmentProblem problem(std::size_t{32} * SegmentProblem::kTextTokens);
  for (const std::size_t count : {4096U, 8192U}) {
    for (const SegmentProblem::Prompt& prompt : problem.prompts(count)) {
      measure(prompt.name + ", tokens " + std::to_string(count),
              [&] { (void)problem.plan(prompt.tokens, refrain::kv::ReuseScope::kSegments); });
    }
  }
  return 0;
}
