// Small JSON files. Main thread.
#include "cli/kv_verdict_store.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/str.h"

namespace refrain::cli {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::string_view kFormat = "refrain-kv-check/1";
constexpr std::size_t kMostBytes = std::size_t{64} << 10U;

}  // namespace

KvVerdictStore::KvVerdictStore(const Environment& environment)
    : folder_(data_folder(environment, "kv-check")) {}

std::string KvVerdictStore::path_of(const Hash128& key) const {
  return str_cat(folder_, "/", to_hex(key), ".json");
}

std::optional<KvScore> KvVerdictStore::find(const Hash128& key) const {
  if (folder_.empty()) return std::nullopt;
  const Result<std::string> text = read_file(path_of(key), kMostBytes);
  if (!text.ok()) return std::nullopt;
  const Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const auto is_count = [&](const char* name) {
    return json.contains(name) && json[name].is_number_unsigned();
  };
  if (!json.is_object() || !json.contains("format") || json["format"] != kFormat ||
      !json.contains("subject") || json["subject"] != to_hex(key) || !is_count("rows") ||
      !is_count("agreeing") || !json.contains("kl") || !json["kl"].is_number())
    return std::nullopt;
  const KvScore score{.rows = json["rows"].get<std::size_t>(),
                      .agreeing = json["agreeing"].get<std::size_t>(),
                      .kl = json["kl"].get<double>()};
  if (score.rows == 0 || score.agreeing > score.rows || !std::isfinite(score.kl) || score.kl < 0)
    return std::nullopt;
  return score;
}

void KvVerdictStore::keep(const Hash128& key, const std::string& model, std::string_view kv_format,
                          const KvScore& score) const {
  if (folder_.empty() || !std::isfinite(score.kl)) return;
  const Json json = {{"format", kFormat},  {"subject", to_hex(key)},
                     {"model", model},     {"kv_format", kv_format},
                     {"rows", score.rows}, {"agreeing", score.agreeing},
                     {"kl", score.kl}};
  replace_file(path_of(key), json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace refrain::cli
