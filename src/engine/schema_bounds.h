// Bounds on JSON schemas from clients, checked before a schema reaches the grammar compiler: size,
// nesting, number of values, and repetition counts in regular expressions, which decide how long
// compiling can take. Plain functions; any thread.
#pragma once

#include <string_view>

#include "base/result.h"
#include "engine/grammar.h"

namespace refrain::engine {

// kTooLarge if `text` is over a limit; kInvalidArgument if it is not JSON or a value under a
// schema keyword is unusable. `field` names the request field in the error.
Result<void> check_schema_bounds(std::string_view text, const GrammarLimits& limits,
                                 std::string_view field);

}  // namespace refrain::engine
