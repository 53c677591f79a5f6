// From budget to blocks.
#include "cli/kv_sizing.h"

#include <gtest/gtest.h>

namespace refrain::cli {
namespace {

constexpr std::uint64_t kMiB = 1U << 20U;
constexpr std::uint64_t kGiB = 1U << 30U;

KvSizingInput smol() {  // SmolLM2 135M: 30 layers, 3 KV heads of 64, f16
  return {.budget_bytes = 0,
          .available_bytes = 8 * kGiB,
          .bytes_per_token = 2 * 30 * 3 * 64 * 2,
          .block_size = 16,
          .wanted_context = 0,
          .model_context = 8192};
}

TEST(KvSizing, AutomaticBudgetIsAQuarterOfFreeMemoryAndAtMostFourGiB) {
  KvSizingInput input = smol();
  EXPECT_EQ(size_kv(input)->budget_bytes, 2 * kGiB);
  EXPECT_TRUE(size_kv(input)->automatic);
  input.available_bytes = 512 * kGiB;
  EXPECT_EQ(size_kv(input)->budget_bytes, 4 * kGiB);
}

TEST(KvSizing, BlocksAreBudgetDividedByBytesPerBlock) {
  KvSizingInput input = smol();
  input.budget_bytes = 256 * kMiB;
  const auto sizing = size_kv(input);
  ASSERT_TRUE(sizing.ok());
  EXPECT_EQ(sizing->block_count, 256 * kMiB / (23040 * 16));
  EXPECT_EQ(sizing->max_context, 8192U);
  EXPECT_FALSE(sizing->automatic);
  EXPECT_TRUE(sizing->notes.empty());
}

TEST(KvSizing, AContextAskedForMustFitIntoTheBudget) {
  KvSizingInput input = smol();
  input.budget_bytes = 64 * kMiB;
  input.wanted_context = 8192;
  const auto sizing = size_kv(input);
  ASSERT_FALSE(sizing.ok());
  EXPECT_EQ(sizing.error().code, Code::kInvalidArgument);
  EXPECT_EQ(sizing.error().field, "--kv-budget");
  EXPECT_NE(sizing.error().message.find("less than --max-context 8192"), std::string::npos)
      << sizing.error().message;
  EXPECT_NE(sizing.error().hint.find("180 MiB"), std::string::npos) << sizing.error().hint;
}

TEST(KvSizing, TheModelsOwnContextIsCutToTheBudgetAndThatIsSaid) {
  KvSizingInput input = smol();
  input.budget_bytes = 64 * kMiB;
  const auto sizing = size_kv(input);
  ASSERT_TRUE(sizing.ok());
  EXPECT_LT(sizing->max_context, 8192U);
  EXPECT_EQ(sizing->max_context, sizing->block_count * 16);
  ASSERT_EQ(sizing->notes.size(), 1U);
}

TEST(KvSizing, AContextAskedForRaisesTheAutomaticBudgetButNotOverFreeMemory) {
  KvSizingInput input = smol();
  input.available_bytes = 400 * kMiB;
  input.wanted_context = 8192;
  EXPECT_GE(size_kv(input)->budget_bytes, 180 * kMiB);
  input.available_bytes = 100 * kMiB;
  ASSERT_FALSE(size_kv(input).ok());
  EXPECT_EQ(size_kv(input).error().field, "--max-context");
}

TEST(KvSizing, ABudgetWithoutASingleBlockIsRefused) {
  KvSizingInput input = smol();
  input.budget_bytes = 1000;
  EXPECT_FALSE(size_kv(input).ok());
}

TEST(KvSizing, SaysWhichOptionAllowsLongerRequests) {
  KvSizingInput input = smol();
  EXPECT_EQ(size_kv(input)->longer_by, "");
  EXPECT_EQ(too_long_hint(*size_kv(input), "use less"), "use less: the model has no longer context");
  input.wanted_context = 1000;
  EXPECT_EQ(size_kv(input)->longer_by, "--max-context");
  input.wanted_context = 0;
  input.budget_bytes = 64 * kMiB;
  EXPECT_EQ(size_kv(input)->longer_by, "--kv-budget");
  EXPECT_EQ(too_long_hint(*size_kv(input), "use less"), "use less, or raise --kv-budget");
}

TEST(AvailableMemory, IsTheLesserOfTheSystemAndTheControlGroup) {
  const std::string meminfo = "MemTotal:       16000000 kB\nMemAvailable:    8000000 kB\n";
  EXPECT_EQ(available_memory_bytes(meminfo, "", ""), 8'000'000ULL * 1024);
  EXPECT_EQ(available_memory_bytes(meminfo, "max\n", "123\n"), 8'000'000ULL * 1024);
  EXPECT_EQ(available_memory_bytes(meminfo, "1000000\n", "400000\n"), 600'000U);
  EXPECT_EQ(available_memory_bytes(meminfo, "1000\n", "4000\n"), 0U);
  EXPECT_EQ(available_memory_bytes("nonsense", "", ""), 0U);
}

TEST(ControlGroup, IsTheOneOfTheProcess) {
  EXPECT_EQ(control_group_folder("0::/system.slice/refrain.service\n"),
            "/sys/fs/cgroup/system.slice/refrain.service");
  EXPECT_EQ(control_group_folder("12:memory:/x\n0::/\n"), "/sys/fs/cgroup/");
  EXPECT_EQ(control_group_folder(""), "/sys/fs/cgroup");
}

}  // namespace
}  // namespace refrain::cli
