// See reuse_gate.h.
#include "model/reuse_gate.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace refrain::model {

double exposure(std::span<const MovedRun> runs, const Look& look,
                std::span<const Position> repaired) {
  CHECK(look.residuals.size() == runs.size(), "a residual for each run");
  double total = 0.0;
  for (const float weight : look.attention) total += double{weight};
  if (total <= 0.0) return 0.0;
  double exposed = 0.0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    CHECK(static_cast<std::size_t>(runs[i].end) <= look.attention.size(), "rows without attention");
    double left = 0.0;
    for (Position row = runs[i].begin; row < runs[i].end; ++row) {
      if (!std::binary_search(repaired.begin(), repaired.end(), row))
        left += double{look.attention[static_cast<std::size_t>(row)]};
    }
    exposed += left * double{look.residuals[i]};
  }
  return exposed / total;
}

std::string_view name_of(ContextChange change) {
  return change == ContextChange::kEdited ? "edited" : "recombined";
}

bool ReuseGate::measures(ContextChange change) const {
  return std::ranges::any_of(slopes_[static_cast<std::size_t>(change)],
                             [](const std::optional<double>& slope) { return slope.has_value(); });
}

std::optional<double> ReuseGate::estimate(ContextChange change, RepairRung rung,
                                          double exposed) const {
  if (rung == RepairRung::kAll) return 0.0;
  const std::optional<double>& slope = slope_of(slopes_, change, rung);
  if (!slope) return std::nullopt;
  return *slope * exposed;
}

double ReuseGate::changed_token(double margin, double estimate) const {
  const double variance = margin_variance_ * estimate;
  if (variance <= 0.0) return 0.0;
  return 0.5 * std::erfc(margin / std::sqrt(2.0 * variance));
}

bool ReuseGate::is_near_tie(double margin, double estimate, double limit) const {
  return watches(estimate, limit) && changed_token(margin, estimate) > limit;
}

}  // namespace refrain::model
