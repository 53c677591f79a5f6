// Tables and JSON. Any thread.
#include "cli/reuse_report.h"

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/str.h"

namespace refrain::cli {
namespace {

template <typename... Values>
std::string line(const char* format, Values... values) {
  std::array<char, 200> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

std::string error_columns(const ErrorFigures& errors) {
  return line("%9.5f %9.5f %6.3f %7.1f", errors.kl_mean, errors.kl_p95, errors.top1,
              errors.common_prefix);
}

nlohmann::ordered_json error_json(const ErrorFigures& errors) {
  return {{"kl_mean", errors.kl_mean},
          {"kl_p95", errors.kl_p95},
          {"top1_agreement", errors.top1},
          {"greedy_common_prefix", errors.common_prefix}};
}

// Of RungFigures or GateFigures.
template <typename Figures>
void add_answers(const Figures& figures, nlohmann::ordered_json& json) {
  if (figures.changed) {
    json["same_answer"] = figures.changed->same;
    json["old_values"] = figures.changed->old_values;
  }
  if (figures.copied) json["copied_share"] = *figures.copied;
}

// Of RungFigures or GateFigures.
template <typename Figures>
std::string answer_columns(const Figures& figures) {
  if (figures.changed)
    return line("%9.3f %8zu", figures.changed->same, figures.changed->old_values);
  if (figures.copied) return line("%8.3f", *figures.copied);
  return {};
}

std::string_view answer_titles(ReuseKind kind) {
  if (kind == ReuseKind::kChanged) return "     same old value";
  if (kind == ReuseKind::kCopied) return "  copied";
  return {};
}

// What a calibration is made from: exposure and error of each rung, case by case.
nlohmann::ordered_json case_json(const ReuseResult& one) {
  nlohmann::ordered_json rungs = nlohmann::ordered_json::array();
  for (const RungResult& rung : one.rungs) {
    nlohmann::ordered_json entry = {{"rung", static_cast<int>(rung.rung)},
                                    {"ttft_ms", to_milliseconds(rung.ttft)},
                                    {"kl_mean", mean(rung.errors.kl)},
                                    {"agreeing", rung.errors.agreeing}};
    if (rung.exposure) entry["exposure"] = *rung.exposure;
    if (!rung.answer.empty()) entry["answer"] = rung.answer;
    rungs.push_back(std::move(entry));
  }
  nlohmann::ordered_json json = {{"kind", name_of(one.kind)},
                                 {"rows", one.cold_rows},
                                 {"cold_ttft_ms", to_milliseconds(one.cold_ttft)}};
  if (!one.cold_answer.empty()) json["cold_answer"] = one.cold_answer;
  if (one.kind == ReuseKind::kChanged) {
    json["answer_before"] = one.answer_before;
    json["old_value"] = one.old_value;
    json["new_value"] = one.new_value;
  }
  json["rungs"] = std::move(rungs);
  if (one.gate) {
    json["gate"] = {{"rung", static_cast<int>(one.gate->chosen.rung)},
                    {"left_alone", one.gate->left_alone},
                    {"refused", one.gate->refused},
                    {"ttft_ms", to_milliseconds(one.gate->chosen.ttft)},
                    {"kl_mean", mean(one.gate->chosen.errors.kl)},
                    {"agreeing", one.gate->chosen.errors.agreeing},
                    {"changed_token", one.gate->changed_token}};
    if (one.gate->estimate) json["gate"]["estimate"] = *one.gate->estimate;
    if (one.gate->tie) json["gate"]["tie"] = *one.gate->tie;
    if (!one.gate->chosen.answer.empty()) json["gate"]["answer"] = one.gate->chosen.answer;
  }
  return json;
}

nlohmann::ordered_json gate_json(const GateFigures& gate) {
  nlohmann::ordered_json shares;
  for (const model::RepairRung rung : model::kRepairRungs) {
    shares[std::string(rung == model::RepairRung::kAll ? "refused" : model::name_of(rung))] =
        gate.shares[static_cast<std::size_t>(rung)];
  }
  nlohmann::ordered_json json = {{"shares", std::move(shares)}, {"left_alone", gate.left_alone}};
  json.update(error_json(gate.errors));
  json.update({{"computed_later", gate.later},
               {"estimate_of_reused", gate.estimate_reused},
               {"kl_of_reused", gate.kl_reused},
               {"ttft_of_cold", gate.ratio}});
  add_answers(gate, json);
  if (gate.refusal_ratio) json["refusal_of_cold"] = *gate.refusal_ratio;
  return json;
}

nlohmann::ordered_json kind_json(const KindFigures& kind) {
  nlohmann::ordered_json rungs = nlohmann::ordered_json::array();
  for (const RungFigures& rung : kind.rungs) {
    nlohmann::ordered_json one = {{"rung", static_cast<int>(rung.rung)},
                                  {"name", model::name_of(rung.rung)},
                                  {"repaired_share", rung.repaired_share}};
    one.update(error_json(rung.errors));
    one.update(
        {{"ttft_ms", rung.ttft_ms}, {"ttft_of_cold", rung.ratio}, {"move_ms", rung.move_ms}});
    add_answers(rung, one);
    rungs.push_back(std::move(one));
  }
  nlohmann::ordered_json json = {{"kind", name_of(kind.kind)},
                                 {"cases", kind.cases},
                                 {"rows", kind.rows},
                                 {"prompt_tokens", kind.prompt_tokens},
                                 {"exact_tokens", kind.exact_tokens},
                                 {"moved_tokens", kind.moved_tokens},
                                 {"runs", kind.runs},
                                 {"cold_ttft_ms", kind.cold_ms},
                                 {"rungs", std::move(rungs)}};
  if (kind.dropped) json["dropped"] = error_json(*kind.dropped);
  if (kind.kind == ReuseKind::kChanged) {
    json["counting_cases"] = kind.counting;
    json["cold_new_values"] = kind.cold_new_values;
  }
  if (kind.cold_copied) json["cold_copied_share"] = *kind.cold_copied;
  if (kind.gate) json["gate"] = gate_json(*kind.gate);
  return json;
}

std::string gate_text(const GateFigures& gate) {
  std::string text =
      line("    gate                %s %8s %8.3f%s\n", error_columns(gate.errors).c_str(), "",
           gate.ratio, answer_columns(gate).c_str());
  text += "  the gate chose";
  for (const model::RepairRung rung : model::kRepairRungs) {
    const std::string_view name =
        rung == model::RepairRung::kAll ? "refusal" : model::name_of(rung);
    text += line(" %s %.0f %%%s", std::string(name).c_str(),
                 100.0 * gate.shares[static_cast<std::size_t>(rung)],
                 rung == model::RepairRung::kAll ? "" : ",");
  }
  text += line(", and %.0f %% were computed during their answer", 100.0 * gate.later);
  if (gate.left_alone > 0)
    text += line("; in %.0f %% there was too little to spare", 100.0 * gate.left_alone);
  text += line("; where it reused, KL %.5f, expected %.5f", gate.kl_reused, gate.estimate_reused);
  if (gate.refusal_ratio) text += line("; a refusal took %.3f of cold", *gate.refusal_ratio);
  return text + "\n";
}

}  // namespace

std::string reuse_text(std::span<const KindFigures> figures) {
  std::string text;
  for (const KindFigures& kind : figures) {
    text += line(
        "%s: %zu cases, %zu rows of answers; prompts of %.0f tokens, %.0f exact, %.0f "
        "moved in %.1f runs; cold TTFT %.0f ms\n",
        std::string(name_of(kind.kind)).c_str(), kind.cases, kind.rows, kind.prompt_tokens,
        kind.exact_tokens, kind.moved_tokens, kind.runs, kind.cold_ms);
    text += "  rung         repaired   KL mean    KL p95  top-1  common  TTFT ms  of cold";
    text += str_cat(answer_titles(kind.kind), "\n");
    for (const RungFigures& rung : kind.rungs) {
      text += line("  %zu %-10s %6.1f %% %s %8.0f %8.3f%s\n", static_cast<std::size_t>(rung.rung),
                   std::string(model::name_of(rung.rung)).c_str(), 100.0 * rung.repaired_share,
                   error_columns(rung.errors).c_str(), rung.ttft_ms, rung.ratio,
                   answer_columns(rung).c_str());
    }
    if (kind.dropped)
      text += line("    dropped             %s\n", error_columns(*kind.dropped).c_str());
    if (kind.kind == ReuseKind::kChanged)
      text += line("  the cold answer changed in %zu cases, which count; in %zu to the new value\n",
                   kind.counting, kind.cold_new_values);
    if (kind.cold_copied)
      text += line("  the cold answer copies %.3f of a span of 100 tokens\n", *kind.cold_copied);
    if (kind.gate) text += gate_text(*kind.gate);
    if (!kind.rungs.empty())
      text += line("  moving rows takes %.1f ms of TTFT\n", kind.rungs.front().move_ms);
  }
  return text;
}

std::string reuse_json(const ReuseSubject& subject, std::span<const ReuseResult> results) {
  const std::vector<KindFigures> figures = reuse_figures(results);
  nlohmann::ordered_json kinds = nlohmann::ordered_json::array();
  for (const KindFigures& kind : figures) kinds.push_back(kind_json(kind));
  nlohmann::ordered_json cases = nlohmann::ordered_json::array();
  for (const ReuseResult& one : results) cases.push_back(case_json(one));
  nlohmann::ordered_json json = {{"model", subject.model},
                                 {"numerics", subject.numerics},
                                 {"data", subject.data},
                                 {"answer_rows", subject.answer_rows},
                                 {"step_tokens", subject.step_tokens},
                                 {"kinds", std::move(kinds)},
                                 {"cases", std::move(cases)},
                                 {"inexact_cases", inexact_cases(results)}};
  // Null: the gate was not measured.
  json["max_divergence"] = nullptr;
  if (subject.max_divergence) json["max_divergence"] = *subject.max_divergence;
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace refrain::cli
