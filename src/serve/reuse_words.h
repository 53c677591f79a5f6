// The words of reuse and of trimming as clients and options write and read them. Plain functions;
// any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/request.h"

namespace refrain::serve {

// "exact" | "repair" | "splice"; nothing for another word.
std::optional<engine::ReuseMode> reuse_mode(std::string_view word);
std::string_view reuse_mode_text(engine::ReuseMode mode);

// Trims nothing; the other policies are named in model/trim_policy.h.
inline constexpr std::string_view kNoPolicy = "none";
// Replaces older turns of a chat by a summary (serve/summaries.h).
inline constexpr std::string_view kSummaryPolicy = "summary";
// Those that trim, such as "window, heavy_hitters"; and these with none in front.
std::string trim_policy_words(std::string_view separator);
std::string context_policy_words(std::string_view separator);

// "none" | "uncalibrated" | "divergence" | "near_tie" | "no_room" | "unsupported"
std::string_view reuse_refusal_text(engine::ReuseRefusal refusal);

}  // namespace refrain::serve
