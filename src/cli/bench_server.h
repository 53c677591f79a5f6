// BenchServer: the server that a measuring client asks, and as whom. Main thread.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/http_client.h"
#include "cli/settings.h"

namespace refrain::cli {

struct BenchServer {
  Url url;
  std::string bearer;  // "" = no key
  std::string model;   // sent as `model`
};

// From --url, --api-key and --alias; without a name the first id of /v1/models. kInvalidArgument;
// kUnavailable if the server has to be asked and gives no model.
Result<BenchServer> bench_server(const Settings& settings);

}  // namespace refrain::cli
