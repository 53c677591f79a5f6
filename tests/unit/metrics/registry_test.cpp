// Registry and its table: the names people rely on, and a page any Prometheus reader accepts
// (O-41).
#include "metrics/registry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "unit/metrics/exposition.h"

namespace refrain::metrics {
namespace {

using test::Exposition;
using test::read_exposition;

TEST(MetricsTable, StandsInTheOrderOfTheEnumAndNamesEveryMetricOnce) {
  std::set<std::string_view> names;
  std::size_t index = 0;
  for (const MetricInfo& info : metrics_table()) {
    EXPECT_EQ(static_cast<std::size_t>(info.metric), index++);
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_FALSE(info.help.empty()) << info.name;
    EXPECT_EQ(info.label.empty(), info.label_values.empty()) << info.name;
  }
  EXPECT_EQ(index, static_cast<std::size_t>(Metric::kCount));
}

TEST(MetricsTable, CountersEndInTotalAndOnlyHistogramsHaveAscendingBuckets) {
  for (const MetricInfo& info : metrics_table()) {
    EXPECT_EQ(info.name.ends_with("_total"), info.kind == MetricKind::kCounter) << info.name;
    EXPECT_EQ(info.buckets.empty(), info.kind != MetricKind::kHistogram) << info.name;
    EXPECT_TRUE(std::is_sorted(info.buckets.begin(), info.buckets.end(), std::less_equal<>()))
        << info.name;
  }
}

TEST(Registry, ANewPageShowsEverySeriesWithZero) {
  const Exposition page = read_exposition(Registry().expose());
  EXPECT_EQ(page.faults, std::vector<std::string>());
  EXPECT_EQ(page.types.size(), static_cast<std::size_t>(Metric::kCount));
  for (const MetricInfo& info : metrics_table()) {
    const std::string name = "refrain:" + std::string(info.name);
    EXPECT_EQ(page.helps.at(name), info.help);
    if (info.kind == MetricKind::kHistogram) {
      EXPECT_EQ(page.samples.at(name + "_count"), 0) << name;
      EXPECT_EQ(page.samples.at(name + "_bucket{le=\"+Inf\"}"), 0) << name;
    } else if (info.label.empty()) {
      EXPECT_EQ(page.samples.at(name), 0) << name;
    }
    for (std::string_view value : info.label_values)
      EXPECT_EQ(page.samples.at(name + "{" + std::string(info.label) + "=\"" + std::string(value) +
                                "\"}"),
                0);
  }
}

TEST(Registry, UpdatesAppearUnderTheirNamesAndLabels) {
  Registry registry;
  registry.add(Metric::kPromptTokens, 120);
  registry.add(Metric::kPromptTokens, 3);
  registry.add_labeled(Metric::kRequestsFinished, "abort", 2);
  registry.set(Metric::kKvCacheUsage, 0.25);
  registry.set_labeled(Metric::kKvBlocks, "pinned", 17);
  registry.set_labeled(Metric::kKvBlocks, "pinned", 16);
  const Exposition page = read_exposition(registry.expose());
  EXPECT_EQ(page.faults, std::vector<std::string>());
  EXPECT_EQ(page.types.at("refrain:prompt_tokens_total"), "counter");
  EXPECT_EQ(page.samples.at("refrain:prompt_tokens_total"), 123);
  EXPECT_EQ(page.samples.at("refrain:request_success_total{finished_reason=\"abort\"}"), 2);
  EXPECT_EQ(page.samples.at("refrain:request_success_total{finished_reason=\"stop\"}"), 0);
  EXPECT_EQ(page.types.at("refrain:kv_cache_usage_perc"), "gauge");
  EXPECT_EQ(page.samples.at("refrain:kv_cache_usage_perc"), 0.25);
  EXPECT_EQ(page.samples.at("refrain:kv_blocks{state=\"pinned\"}"), 16);
  EXPECT_EQ(registry.value(Metric::kPromptTokens), 123);
  EXPECT_EQ(registry.value(Metric::kKvBlocks, "pinned"), 16);
}

TEST(Registry, AHistogramCountsCumulativelyAndSums) {
  Registry registry;
  for (double seconds : {0.02, 0.02, 0.3, 1000.0})
    registry.observe(Metric::kTimeToFirstToken, seconds);
  const Exposition page = read_exposition(registry.expose());
  const std::string name = "refrain:time_to_first_token_seconds";
  EXPECT_EQ(page.types.at(name), "histogram");
  EXPECT_EQ(page.samples.at(name + "_bucket{le=\"0.01\"}"), 0);
  EXPECT_EQ(page.samples.at(name + "_bucket{le=\"0.5\"}"), 3);
  EXPECT_EQ(page.samples.at(name + "_bucket{le=\"+Inf\"}"), 4);
  EXPECT_EQ(page.samples.at(name + "_count"), 4);
  EXPECT_NEAR(page.samples.at(name + "_sum"), 1000.34, 1e-9);
}

TEST(Registry, ValuesThatAreNoNumbersLeaveThePageSound) {  // O-41: no NaN
  Registry registry;
  for (double bad : {std::numeric_limits<double>::quiet_NaN(), HUGE_VAL, -HUGE_VAL}) {
    registry.add(Metric::kPromptTokens, bad);
    registry.set(Metric::kKvCacheUsage, bad);
    registry.observe(Metric::kStepTime, bad);
  }
  const Exposition page = read_exposition(registry.expose());
  EXPECT_EQ(page.faults, std::vector<std::string>());
  EXPECT_EQ(page.samples.at("refrain:prompt_tokens_total"), 0);
  EXPECT_EQ(page.samples.at("refrain:engine_step_seconds_count"), 0);
}

TEST(Registry, BigCountersKeepEveryToken) {
  Registry registry;
  registry.add(Metric::kPromptTokens, 9007199254740991.0 - 1);
  registry.add(Metric::kPromptTokens, 1);
  const Exposition page = read_exposition(registry.expose());
  EXPECT_EQ(page.samples.at("refrain:prompt_tokens_total"), 9007199254740991.0);
}

TEST(Registry, ManyThreadsLoseNoUpdate) {
  Registry registry;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&registry] {
      for (int k = 0; k < 5000; ++k) {
        registry.add_labeled(Metric::kHttpResponses, "2xx", 1);
        registry.observe(Metric::kStepTime, 0.01);
        if (k % 500 == 0) {
          EXPECT_TRUE(read_exposition(registry.expose()).faults.empty());
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(registry.value(Metric::kHttpResponses, "2xx"), 20000);
  EXPECT_EQ(read_exposition(registry.expose()).samples.at("refrain:engine_step_seconds_count"),
            20000);
}

TEST(RegistryDeath, AWrongKindLabelOrSignIsABugOfOurs) {
  Registry registry;
  EXPECT_DEATH(registry.set(Metric::kPromptTokens, 1), "another kind");
  EXPECT_DEATH(registry.add(Metric::kRequestsFinished, 1), "wants a label");
  EXPECT_DEATH(registry.add_labeled(Metric::kPromptTokens, "x", 1), "wants no label");
  EXPECT_DEATH(registry.add_labeled(Metric::kRequestsFinished, "bored", 1), "no label value bored");
  EXPECT_DEATH(registry.add(Metric::kPromptTokens, -1), "never falls");
}

}  // namespace
}  // namespace refrain::metrics
