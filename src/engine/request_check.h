// Checks a request before it is queued and fits it into the context: refused here means refused at
// once, on the caller's thread. Plain functions; any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "engine/request.h"
#include "model/trim_policy.h"

namespace refrain::engine {

struct RequestLimits {
  std::uint32_t vocabulary_size = 0;
  std::uint32_t max_context = 0;  // prompt + generated tokens of one choice; 0 = no own limit
  std::uint32_t pool_tokens = 0;  // token slots of the whole KV budget
  std::optional<model::TrimBounds> trim = {};  // none: contexts cannot be trimmed
  bool can_look = false;                       // policies that need attention work
};

constexpr std::uint32_t kMaxChoices = 128;

// kInvalidArgument with the field, kContextLength if the prompt leaves no room for one new token.
// `max_tokens` is lowered to what fits behind the prompt.
Result<void> check_and_fit(GenerateRequest& request, const RequestLimits& limits);

}  // namespace refrain::engine
