// What of a request's usage becomes which metric.
#include "engine/engine_metrics.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace refrain::engine {
namespace {

using metrics::Metric;

// Sum of the samples of a histogram, from the page.
std::string sample(const metrics::Registry& registry, const std::string& series) {
  const std::string page = registry.expose();
  const std::size_t at = page.find("\n" + series + " ");
  if (at == std::string::npos) return "none";
  const std::size_t value = at + series.size() + 2;
  return page.substr(value, page.find('\n', value) - value);
}

TEST(EngineMetrics, every_prompt_token_has_one_source) {  // O-42
  metrics::Registry registry;
  EngineMetrics counted(&registry);
  counted.count_prompt({.prompt_tokens = 1000,
                        .cached_tokens = 100,
                        .moved_tokens = 600,
                        .repaired_tokens = 250,
                        .computed_tokens = 50,
                        .divergence_estimate = 0.03});
  EXPECT_EQ(registry.value(Metric::kPromptTokens), 1000);
  EXPECT_EQ(registry.value(Metric::kPromptTokensCached), 100);
  EXPECT_EQ(registry.value(Metric::kPromptTokensMoved), 600);
  EXPECT_EQ(registry.value(Metric::kPromptTokensRepaired), 250);
  EXPECT_EQ(registry.value(Metric::kPromptTokensComputed), 300);
  double sources = 0;
  for (const auto& [source, count] : std::map<std::string, double>{
           {"local_cache_hit", 100}, {"local_cache_moved", 600}, {"local_compute", 300}}) {
    EXPECT_EQ(registry.value(Metric::kPromptTokensBySource, source), count) << source;
    sources += count;
  }
  EXPECT_EQ(sources, 1000);
  EXPECT_EQ(sample(registry, "refrain:reuse_divergence_estimate_nats_sum"), "0.03");
  EXPECT_EQ(sample(registry, "refrain:reuse_divergence_estimate_nats_count"), "1");
}

TEST(EngineMetrics, audits_and_idle_work_are_counted_as_they_come) {
  metrics::Registry registry;
  EngineMetrics counted(&registry);
  counted.count_audit({.divergence = 0.25, .same_first_token = true}, /*broken=*/false);
  counted.count_audit({.divergence = 0.5, .same_first_token = false}, /*broken=*/false);
  counted.count_audit({.divergence = 0.0, .same_first_token = true}, /*broken=*/false);
  EXPECT_EQ(registry.value(Metric::kReuseAudits, "agree"), 2);
  EXPECT_EQ(registry.value(Metric::kReuseAudits, "differ"), 1);
  EXPECT_EQ(sample(registry, "refrain:reuse_audit_divergence_nats_sum"), "0.75");
  EXPECT_EQ(sample(registry, "refrain:reuse_audit_divergence_nats_count"), "3");
  EXPECT_EQ(registry.value(Metric::kReusePromiseBroken), 0);
  counted.count_audit({.divergence = 1.0, .same_first_token = false}, /*broken=*/true);
  EXPECT_EQ(registry.value(Metric::kReusePromiseBroken), 1);
  for (const std::uint64_t all : {64U, 64U, 200U}) counted.update_idle(all);
  EXPECT_EQ(registry.value(Metric::kIdleTokens), 200) << "all so far, not their sum";
}

TEST(EngineMetrics, refusals_are_counted_by_reason_and_no_refusal_is_none) {
  metrics::Registry registry;
  EngineMetrics counted(&registry);
  counted.count_prompt({.prompt_tokens = 10, .computed_tokens = 10});
  using enum ReuseRefusal;
  double expected = 0;
  for (const ReuseRefusal refusal : {kUncalibrated, kDivergence, kNoRoom, kUnsupported}) {
    ++expected;
    for (double times = 0; times < expected; ++times) counted.count_prompt({.refusal = refusal});
  }
  EXPECT_EQ(registry.value(Metric::kReuseRefused, "uncalibrated"), 1);
  EXPECT_EQ(registry.value(Metric::kReuseRefused, "divergence"), 2);
  EXPECT_EQ(registry.value(Metric::kReuseRefused, "no_room"), 3);
  EXPECT_EQ(registry.value(Metric::kReuseRefused, "unsupported"), 4);
  EXPECT_EQ(sample(registry, "refrain:reuse_divergence_estimate_nats_count"), "0");
}

}  // namespace
}  // namespace refrain::engine
