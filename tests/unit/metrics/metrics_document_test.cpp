// The reference page: it is what the table says, and every metric is on it once.
#include "metrics/metrics_document.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

#include "metrics/registry.h"

namespace refrain::metrics {
namespace {

TEST(MetricsDocument, ReferenceOfMetricsIsWhatTheTableSays) {
  std::ifstream file(REFRAIN_TEST_DATA "/../../docs/reference/metrics.md");
  const std::string page((std::istreambuf_iterator<char>(file)), {});
  EXPECT_TRUE(page == metrics_document())
      << "run `refrain config docs metrics > docs/reference/metrics.md`";
}

TEST(MetricsDocument, NamesEveryMetricOnceWithItsHelpAndLabelValues) {
  const std::string page = metrics_document();
  for (const MetricInfo& info : metrics_table()) {
    const std::string name = "| `refrain:" + std::string(info.name) + "` | ";
    const std::size_t at = page.find(name);
    ASSERT_NE(at, std::string::npos) << info.name;
    EXPECT_EQ(page.find(name, at + 1), std::string::npos) << info.name;
    const std::string row = page.substr(at, page.find('\n', at) - at);
    EXPECT_NE(row.find(info.help), std::string::npos) << row;
    for (const std::string_view value : info.label_values)
      EXPECT_NE(row.find("`" + std::string(value) + "`"), std::string::npos) << row;
    EXPECT_EQ(std::count(row.begin(), row.end(), '|'), 4) << "a `|` in the help: " << row;
  }
}

TEST(MetricsDocument, BucketsOfTokensAndOfSecondsAreExact) {
  const std::string page = metrics_document();
  EXPECT_NE(page.find(" 16384, 32768, 131072 |\n"), std::string::npos);
  EXPECT_NE(page.find("| 0.001, 0.0025, 0.005,"), std::string::npos);
}

}  // namespace
}  // namespace refrain::metrics
