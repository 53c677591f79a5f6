// API keys as users write them. Pure functions plus one file reader; main thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/settings.h"
#include "serve/server.h"

namespace refrain::cli {

// "KEY" or "TENANT=KEY", blanks around it dropped. Each key without a tenant gets one of its own,
// numbered by `index`. A key may end in `=` (base64): "c2VjcmV0==" names no tenant.
// kInvalidArgument for an empty key, or one with blanks or control characters; never repeats the
// key.
Result<serve::ApiKey> parse_api_key(std::string_view text, std::size_t index);

// Keys of --api-key and of --api-key-file (one a line, `#` comments). kInvalidArgument also for a
// key that stands twice.
Result<std::vector<serve::ApiKey>> collect_api_keys(const Settings& settings);

}  // namespace refrain::cli
