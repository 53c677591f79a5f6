// Fitting slopes, and the file they are kept in. Main thread.
#include "cli/calibration.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "base/str.h"

namespace refrain::cli {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;
constexpr std::string_view kFormat = "refrain-calibration/2";

struct Pair {
  model::ContextChange change{};
  double exposure = 0;
  double kl = 0;  // mean over the rows of one case
  const RowErrors* rows = nullptr;
};

std::vector<Pair> pairs_of(std::span<const ReuseResult* const> cases, model::RepairRung wanted) {
  std::vector<Pair> pairs;
  for (const ReuseResult* one : cases) {
    for (const RungResult& rung : one->rungs) {
      if (rung.rung != wanted || !rung.exposure) continue;
      double sum = 0.0;
      for (const double kl : rung.errors.kl) sum += kl;
      pairs.push_back({one->change, *rung.exposure,
                       sum / static_cast<double>(rung.errors.kl.size()), &rung.errors});
    }
  }
  return pairs;
}

// The ratio of the sums: the estimates add up to the errors over the fitted cases, and the cases
// with much at stake count most.
std::optional<double> fit(const std::vector<Pair>& pairs, model::ContextChange change) {
  double exposure = 0.0, kl = 0.0;
  for (const Pair& pair : pairs) {
    if (pair.change != change) continue;
    exposure += pair.exposure;
    kl += pair.kl;
  }
  if (exposure <= 0.0 || !std::isfinite(exposure) || !std::isfinite(kl)) return std::nullopt;
  return kl / exposure;
}

// Over all rungs alike, and of rows whose two best tokens are near each other: clear ones are
// further off without any harm.
double fit_margin_variance(std::span<const ReuseResult* const> cases) {
  constexpr double kNear = 1.0;  // logits
  double squares = 0.0, kl = 0.0;
  for (const model::RepairRung rung : model::kRepairRungs) {
    for (const Pair& pair : pairs_of(cases, rung)) {
      for (std::size_t row = 0; row < pair.rows->margin.size(); ++row) {
        if (pair.rows->margin[row] >= kNear) continue;
        squares += pair.rows->margin_shift[row] * pair.rows->margin_shift[row];
        kl += pair.kl;
      }
    }
  }
  return kl > 0.0 && std::isfinite(squares / kl) ? squares / kl : 0.0;
}

HeldBack check(const model::ReuseGate& gate, std::span<const ReuseResult* const> cases) {
  HeldBack held{.cases = static_cast<std::uint32_t>(cases.size())};
  std::size_t count = 0;
  double rows = 0.0;
  for (const model::RepairRung rung : model::kRepairRungs) {
    for (const Pair& pair : pairs_of(cases, rung)) {
      const std::optional<double> estimate = gate.estimate(pair.change, rung, pair.exposure);
      if (!estimate) continue;
      ++count;
      held.kl_mean += pair.kl;
      held.estimate_mean += *estimate;
      if (pair.kl <= *estimate) held.kept += 1.0;
      rows += static_cast<double>(pair.rows->kl.size());
      held.changed += static_cast<double>(pair.rows->kl.size() - pair.rows->agreeing);
      for (const double margin : pair.rows->margin)
        held.changed_estimate += gate.changed_token(margin, *estimate);
    }
  }
  const auto all = static_cast<double>(std::max<std::size_t>(count, 1));
  held.kl_mean /= all;
  held.estimate_mean /= all;
  held.kept /= all;
  held.changed /= std::max(rows, 1.0);
  held.changed_estimate /= std::max(rows, 1.0);
  return held;
}

Json to_json(const CalibrationSubject& subject, const Calibration& calibration) {
  Json slopes = Json::object();
  for (const model::ContextChange change : model::kContextChanges) {
    for (const model::RepairRung rung : model::kRepairRungs) {
      if (const auto& slope = model::ReuseGate::slope_of(calibration.slopes, change, rung))
        slopes[std::string(model::name_of(change))][std::string(model::name_of(rung))] = *slope;
    }
  }
  const HeldBack& held = calibration.held_back;
  return {{"format", kFormat},
          {"subject", to_hex(subject.key)},
          {"model", subject.model},
          {"numerics", subject.numerics},
          {"nats_per_exposure", std::move(slopes)},
          {"margin_variance_per_nat", calibration.margin_variance},
          {"fitted_cases", calibration.fitted_cases},
          {"held_back",
           {{"cases", held.cases},
            {"kl_mean", held.kl_mean},
            {"estimate_mean", held.estimate_mean},
            {"kept", held.kept},
            {"changed_tokens", held.changed},
            {"changed_tokens_estimate", held.changed_estimate}}}};
}

Error not_one(const std::string& path, std::string_view what) {
  return Error{Code::kDataLoss, str_cat("`", path, "` is not a calibration: ", what),
               "make it anew with `refrain calibrate`, or remove it", "--calibration"};
}

Result<void> read_count(const std::string& path, const Json& json, const char* name,
                        std::uint32_t& count) {
  const auto value = json.find(name);
  if (value == json.end() || !value->is_number_unsigned())
    return not_one(path, str_cat("`", name, "` is no count"));
  count = value->get<std::uint32_t>();
  return {};
}

Result<void> read_figure(const std::string& path, const Json& json, const char* name,
                         double& figure) {
  const auto value = json.find(name);
  if (value == json.end() || !value->is_number())
    return not_one(path, str_cat("`", name, "` is no number"));
  figure = value->get<double>();
  return {};
}

Result<Calibration> from_json(const std::string& path, const Json& json) {
  Calibration calibration;
  const auto slopes = json.find("nats_per_exposure");
  if (slopes == json.end() || !slopes->is_object() || slopes->empty())
    return not_one(path, "`nats_per_exposure` is missing");
  for (const model::ContextChange change : model::kContextChanges) {
    const auto rungs = slopes->find(std::string(model::name_of(change)));
    if (rungs == slopes->end()) continue;
    if (!rungs->is_object()) return not_one(path, "`nats_per_exposure` is wrong");
    for (const model::RepairRung rung : model::kRepairRungs) {
      const std::string name(model::name_of(rung));
      const auto value = rungs->find(name);
      if (value == rungs->end()) continue;
      if (!value->is_number() || value->get<double>() < 0.0)
        return not_one(path, str_cat("`nats_per_exposure.", model::name_of(change), ".", name,
                                     "` is no positive number"));
      model::ReuseGate::slope_of(calibration.slopes, change, rung) = value->get<double>();
    }
  }
  RETURN_IF_ERROR(read_figure(path, json, "margin_variance_per_nat", calibration.margin_variance));
  if (calibration.margin_variance < 0.0)
    return not_one(path, "`margin_variance_per_nat` is no positive number");
  RETURN_IF_ERROR(read_count(path, json, "fitted_cases", calibration.fitted_cases));
  const auto held = json.find("held_back");
  if (held == json.end() || !held->is_object()) return not_one(path, "`held_back` is missing");
  RETURN_IF_ERROR(read_count(path, *held, "cases", calibration.held_back.cases));
  RETURN_IF_ERROR(read_figure(path, *held, "kl_mean", calibration.held_back.kl_mean));
  RETURN_IF_ERROR(read_figure(path, *held, "estimate_mean", calibration.held_back.estimate_mean));
  RETURN_IF_ERROR(read_figure(path, *held, "kept", calibration.held_back.kept));
  RETURN_IF_ERROR(read_figure(path, *held, "changed_tokens", calibration.held_back.changed));
  RETURN_IF_ERROR(
      read_figure(path, *held, "changed_tokens_estimate", calibration.held_back.changed_estimate));
  return calibration;
}

}  // namespace

Result<Calibration> calibrate(std::span<const ReuseResult> results) {
  constexpr std::size_t kLeast = 3;  // two to fit, one to check
  std::vector<const ReuseResult*> fitted, held;
  for (const ReuseKind kind : {ReuseKind::kRecombined, ReuseKind::kEdited}) {
    std::size_t count = 0;
    for (const ReuseResult& result : results) {
      if (result.kind != kind || result.run_count == 0) continue;
      (++count % kLeast == 0 ? held : fitted).push_back(&result);
    }
    if (count < kLeast)
      return Error{
          Code::kInvalidArgument,
          str_cat("only ", count, " ", name_of(kind), " cases with text that can be moved"),
          str_cat("give at least ", kLeast, " of each kind (--data, --cases)"), "--cases"};
  }
  Calibration calibration{.slopes = {}, .held_back = {}};
  calibration.fitted_cases = static_cast<std::uint32_t>(fitted.size());
  for (const model::RepairRung rung : model::kRepairRungs) {
    if (rung == model::RepairRung::kAll) continue;
    for (const model::ContextChange change : model::kContextChanges) {
      model::ReuseGate::slope_of(calibration.slopes, change, rung) =
          fit(pairs_of(fitted, rung), change);
    }
  }
  calibration.margin_variance = fit_margin_variance(fitted);
  const model::ReuseGate gate = calibration.gate();
  if (std::ranges::none_of(model::kContextChanges,
                           [&](model::ContextChange change) { return gate.measures(change); }))
    return Error{Code::kInternal, "no case gave an exposure and an error that are numbers",
                 "the model file may be damaged"};
  calibration.held_back = check(gate, held);
  return calibration;
}

Result<std::string> calibration_path(const std::string& option, const Environment& environment,
                                     const Hash128& key) {
  if (!option.empty()) return option;
  const std::string folder = data_folder(environment, "calibration");
  if (folder.empty())
    return Error{Code::kNotFound,
                 "no place for calibrations: neither XDG_DATA_HOME nor HOME is set", "name a file",
                 "--calibration"};
  return str_cat(folder, "/", to_hex(key), ".json");
}

Result<std::optional<Calibration>> load_calibration(const std::string& path,
                                                    const CalibrationSubject& subject) {
  constexpr std::size_t kMaxBytes = std::size_t{64} << 10U;
  std::error_code fault;
  if (!fs::exists(path, fault)) return std::optional<Calibration>{};
  ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxBytes));
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("format") || json["format"] != kFormat)
    return not_one(path, str_cat("it does not say \"format\": \"", kFormat, "\""));
  const auto of = json.find("subject");
  if (of == json.end() || *of != to_hex(subject.key))
    return Error{Code::kInvalidArgument,
                 str_cat("the calibration `", path,
                         "` is that of another model, KV format or instruction set"),
                 "run `refrain calibrate` with the same --model and --kv-format", "--calibration"};
  ASSIGN_OR_RETURN(Calibration calibration, from_json(path, json));
  return std::optional<Calibration>(calibration);
}

CalibrationSubject calibration_subject(const Compute& compute) {
  return {compute.cache_root(), compute.loaded.name, compute.executor->numerics()};
}

Result<std::optional<Calibration>> find_calibration(const Settings& settings,
                                                    const Compute& compute) {
  const std::string& option = settings.text("--calibration");
  const CalibrationSubject subject = calibration_subject(compute);
  const Result<std::string> path = calibration_path(option, settings.environment(), subject.key);
  if (!path.ok()) return std::optional<Calibration>{};
  ASSIGN_OR_RETURN(std::optional<Calibration> found, load_calibration(*path, subject));
  if (!found && !option.empty())
    return Error{Code::kNotFound, str_cat("there is no calibration `", option, "`"),
                 "make it with `refrain calibrate --calibration FILE`", "--calibration"};
  return found;
}

Result<void> save_calibration(const std::string& path, const CalibrationSubject& subject,
                              const Calibration& calibration) {
  if (!replace_file(path, to_json(subject, calibration).dump(2) + "\n"))
    return Error{Code::kUnavailable, str_cat("`", path, "` cannot be written"),
                 "check the folder's permissions, or name another file", "--calibration"};
  return {};
}

}  // namespace refrain::cli
