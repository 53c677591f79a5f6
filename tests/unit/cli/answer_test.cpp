// The line that `--stats` writes about an answer.
#include "cli/answer.h"

#include <gtest/gtest.h>

namespace refrain::cli {
namespace {

TEST(DescribeAnswer, TellsMovedAndRepairedTokensAndRefusalsWhereThereAreSome) {
  Answer answer;
  answer.usage = {
      .prompt_tokens = 31, .cached_tokens = 16, .computed_tokens = 15, .completion_tokens = 12};
  answer.timings.ttft_ms = 80;
  answer.timings.tpot_ms = 40;
  EXPECT_EQ(describe_answer(answer),
            "31 prompt tokens (16 cached), 12 generated, first token after 80 ms, 25.0 tokens/s");
  answer.usage.moved_tokens = 10;
  answer.usage.repaired_tokens = 3;
  EXPECT_TRUE(describe_answer(answer).starts_with(
      "31 prompt tokens (16 cached, 10 moved, 3 repaired), 12 generated, "));
  answer.usage.moved_tokens = answer.usage.repaired_tokens = 0;
  answer.usage.refusal = engine::ReuseRefusal::kUncalibrated;
  EXPECT_TRUE(describe_answer(answer).starts_with(
      "31 prompt tokens (16 cached, none moved: uncalibrated), 12 generated, "));
}

}  // namespace
}  // namespace refrain::cli
