// The words of reuse as clients and options write and read them. Plain functions; any thread.
#pragma once

#include <optional>
#include <string_view>

#include "engine/request.h"

namespace refrain::serve {

// "exact" | "repair" | "splice"; nothing for another word.
std::optional<engine::ReuseMode> reuse_mode(std::string_view word);
std::string_view reuse_mode_text(engine::ReuseMode mode);

// "none" | "uncalibrated" | "divergence" | "no_room" | "unsupported"
std::string_view reuse_refusal_text(engine::ReuseRefusal refusal);

}  // namespace refrain::serve
