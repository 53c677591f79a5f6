// See reuse_words.h.
#include "serve/reuse_words.h"

namespace refrain::serve {

std::optional<engine::ReuseMode> reuse_mode(std::string_view word) {
  using enum engine::ReuseMode;
  for (const engine::ReuseMode mode : {kExact, kRepair, kSplice})
    if (word == reuse_mode_text(mode)) return mode;
  return std::nullopt;
}

std::string_view reuse_mode_text(engine::ReuseMode mode) {
  switch (mode) {
    case engine::ReuseMode::kExact:
      return "exact";
    case engine::ReuseMode::kRepair:
      return "repair";
    case engine::ReuseMode::kSplice:
      return "splice";
  }
  return "exact";
}

std::string trim_policy_words(std::string_view separator) {
  std::string words;
  for (const model::TrimPolicy& policy : model::trim_policies()) {
    if (!words.empty()) words += separator;
    words += policy.name;
  }
  return words;
}

std::string context_policy_words(std::string_view separator) {
  std::string words(kNoPolicy);
  return words.append(separator).append(trim_policy_words(separator));
}

std::string_view reuse_refusal_text(engine::ReuseRefusal refusal) {
  switch (refusal) {
    case engine::ReuseRefusal::kNone:
      return "none";
    case engine::ReuseRefusal::kUncalibrated:
      return "uncalibrated";
    case engine::ReuseRefusal::kDivergence:
      return "divergence";
    case engine::ReuseRefusal::kNearTie:
      return "near_tie";
    case engine::ReuseRefusal::kNoRoom:
      return "no_room";
    case engine::ReuseRefusal::kUnsupported:
      return "unsupported";
  }
  return "none";
}

}  // namespace refrain::serve
