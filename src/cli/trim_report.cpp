// See trim_report.h.
#include "cli/trim_report.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/str.h"

namespace refrain::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string_view name_of(const TrimFigures& figures) {
  return figures.policy == nullptr ? "full" : figures.policy->name;
}

// A mean that knows how many values it is of.
struct Mean {
  double sum = 0;
  std::size_t count = 0;
  void add(double value) {
    sum += value;
    ++count;
  }
  double value() const { return count == 0 ? 0 : sum / static_cast<double>(count); }
};

TrimFigures figures_of(std::span<const std::vector<TrimResult>> cases, std::size_t arm) {
  TrimFigures figures;
  Mean kept, kl, same, right, later, look;
  std::array<Mean, TrimFigures::kParts> parts;
  for (const std::vector<TrimResult>& results : cases) {
    const TrimResult& one = results[arm];
    figures.policy = one.policy;
    figures.ratio = one.ratio;
    kept.add(double{static_cast<double>(one.kept_tokens)} / one.context_tokens);
    look.add(to_milliseconds(one.look));
    for (const TrimAnswer& answer : one.answers) {
      kl.add(answer.kl);
      same.add(answer.same_top);
      (answer.second_turn ? later : right).add(answer.right ? 1 : 0);
      const auto part = static_cast<std::size_t>(answer.place * TrimFigures::kParts);
      if (!answer.second_turn)
        parts[std::min(part, TrimFigures::kParts - 1)].add(answer.right ? 1 : 0);
    }
  }
  figures.kept_share = kept.value();
  figures.kl = kl.value();
  figures.same_top = same.value();
  figures.right = right.value();
  figures.right_later = later.value();
  for (std::size_t i = 0; i < parts.size(); ++i) figures.right_by_part[i] = parts[i].value();
  figures.look_ms = look.value();
  figures.questions = right.count;
  return figures;
}

}  // namespace

std::vector<TrimFigures> trim_figures(std::span<const std::vector<TrimResult>> cases) {
  std::vector<TrimFigures> all;
  if (cases.empty()) return all;
  for (std::size_t arm = 0; arm < cases.front().size(); ++arm)
    all.push_back(figures_of(cases, arm));
  return all;
}

std::string trim_text(std::span<const TrimFigures> figures) {
  std::array<char, 200> line{};
  std::snprintf(line.data(), line.size(), "%-18s %5s %6s %8s %6s %7s %7s  %-23s %7s\n", "policy",
                "cut", "kept %", "KL", "top %", "right %", "2nd %", "right % by quarter",
                "look ms");
  std::string text = line.data();
  for (const TrimFigures& one : figures) {
    const double* parts = one.right_by_part;
    std::snprintf(line.data(), line.size(),
                  "%-18s %4ux %6.1f %8.4f %6.1f %7.1f %7.1f  %5.1f %5.1f %5.1f %5.1f %7.0f\n",
                  std::string(name_of(one)).c_str(), one.ratio, 100 * one.kept_share, one.kl,
                  100 * one.same_top, 100 * one.right, 100 * one.right_later, 100 * parts[0],
                  100 * parts[1], 100 * parts[2], 100 * parts[3], one.look_ms);
    text += line.data();
  }
  return text;
}

std::string trim_json(const TrimSubject& subject, std::span<const TrimFigures> figures) {
  Json arms = Json::array();
  for (const TrimFigures& one : figures) {
    arms.push_back({{"policy", name_of(one)},
                    {"ratio", one.ratio},
                    {"kept_share", one.kept_share},
                    {"kl_mean", one.kl},
                    {"same_top", one.same_top},
                    {"right", one.right},
                    {"right_second_turn", one.right_later},
                    {"right_by_quarter", one.right_by_part},
                    {"questions", one.questions},
                    {"look_ms", one.look_ms}});
  }
  const Json all = {{"model", subject.model},
                    {"numerics", subject.numerics},
                    {"cases", subject.cases},
                    {"pairs", subject.pairs},
                    {"filler_sentences", subject.filler},
                    {"context_tokens", subject.context_tokens},
                    {"arms", std::move(arms)}};
  return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace refrain::cli
