// Registry on prometheus-cpp: one family per row of the table, all series made in the constructor.
// Any thread: counters and gauges are atomic, a histogram locks itself for the length of one
// update.
#include "metrics/registry.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <sstream>
#include <vector>

#include "base/check.h"
#include "base/str.h"

namespace refrain::metrics {
namespace {

// All series of one metric: one, or one per label value. Exactly one of the three lists is filled.
class Series {
 public:
  explicit Series(const MetricInfo& info) : info_(&info) {
    const std::size_t count = info.label.empty() ? 1 : info.label_values.size();
    for (std::size_t i = 0; i < count; ++i) {
      switch (info.kind) {
        case MetricKind::kCounter:
          counters_.push_back(std::make_unique<prometheus::Counter>());
          break;
        case MetricKind::kGauge:
          gauges_.push_back(std::make_unique<prometheus::Gauge>());
          break;
        case MetricKind::kHistogram:
          histograms_.push_back(std::make_unique<prometheus::Histogram>(
              std::vector<double>(info.buckets.begin(), info.buckets.end())));
          break;
      }
    }
  }

  prometheus::Counter& counter(std::string_view label) const { return pick(counters_, label); }
  prometheus::Gauge& gauge(std::string_view label) const { return pick(gauges_, label); }
  prometheus::Histogram& histogram() const { return pick(histograms_, {}); }
  bool is_counter() const { return !counters_.empty(); }

  prometheus::MetricFamily collect() const {
    prometheus::MetricFamily family;
    family.name = str_cat(kMetricPrefix, info_->name);
    family.help = info_->help;
    family.type = info_->kind == MetricKind::kCounter ? prometheus::MetricType::Counter
                  : info_->kind == MetricKind::kGauge ? prometheus::MetricType::Gauge
                                                      : prometheus::MetricType::Histogram;
    for (const auto& counter : counters_) family.metric.push_back(counter->Collect());
    for (const auto& gauge : gauges_) family.metric.push_back(gauge->Collect());
    for (const auto& histogram : histograms_) family.metric.push_back(histogram->Collect());
    if (!info_->label.empty())
      for (std::size_t i = 0; i < family.metric.size(); ++i)
        family.metric[i].label.push_back(
            {std::string(info_->label), std::string(info_->label_values[i])});
    return family;
  }

 private:
  template <typename T>
  T& pick(const std::vector<std::unique_ptr<T>>& list, std::string_view label) const {
    CHECK(!list.empty(), str_cat("metric `", info_->name, "` is of another kind"));
    CHECK(
        label.empty() == info_->label.empty(),
        str_cat("metric `", info_->name, "` wants ", info_->label.empty() ? "no" : "a", " label"));
    if (label.empty()) return *list.front();
    const auto& values = info_->label_values;
    const auto found = std::find(values.begin(), values.end(), label);
    CHECK(found != values.end(), str_cat("metric `", info_->name, "` has no label value ", label));
    return *list[static_cast<std::size_t>(found - values.begin())];
  }

  const MetricInfo* info_;
  std::vector<std::unique_ptr<prometheus::Counter>> counters_;
  std::vector<std::unique_ptr<prometheus::Gauge>> gauges_;
  std::vector<std::unique_ptr<prometheus::Histogram>> histograms_;
};

}  // namespace

struct Registry::Impl {
  std::vector<Series> series;  // by Metric

  const Series& at(Metric metric) const { return series.at(static_cast<std::size_t>(metric)); }
};

Registry::Registry() : impl_(std::make_unique<Impl>()) {
  for (const MetricInfo& info : metrics_table()) {
    CHECK(static_cast<std::size_t>(info.metric) == impl_->series.size(),
          "the table has another order than the enum");
    impl_->series.emplace_back(info);
  }
}

Registry::~Registry() = default;

void Registry::add(Metric metric, double value) {
  add_labeled(metric, {}, value);
}

void Registry::add_labeled(Metric metric, std::string_view label_value, double value) {
  prometheus::Counter& counter = impl_->at(metric).counter(label_value);
  if (!std::isfinite(value)) return;
  CHECK(value >= 0, "a counter never falls");
  counter.Increment(value);
}

void Registry::set(Metric metric, double value) {
  set_labeled(metric, {}, value);
}

void Registry::set_labeled(Metric metric, std::string_view label_value, double value) {
  prometheus::Gauge& gauge = impl_->at(metric).gauge(label_value);
  if (std::isfinite(value)) gauge.Set(value);
}

void Registry::observe(Metric metric, double value) {
  prometheus::Histogram& histogram = impl_->at(metric).histogram();
  if (std::isfinite(value)) histogram.Observe(value);
}

double Registry::value(Metric metric, std::string_view label_value) const {
  const Series& series = impl_->at(metric);
  return series.is_counter() ? series.counter(label_value).Value()
                             : series.gauge(label_value).Value();
}

std::string Registry::expose() const {
  std::vector<prometheus::MetricFamily> families;
  families.reserve(impl_->series.size());
  for (const Series& series : impl_->series) families.push_back(series.collect());
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, families);
  return std::move(out).str();
}

}  // namespace refrain::metrics
