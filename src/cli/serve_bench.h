// The measuring client behind `refrain bench serve`: speaks plain OpenAI, so that it also measures
// other servers. One thread per client; results are joined at the end.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/bench_server.h"
#include "cli/streamed_answer.h"

namespace refrain::cli {

struct ServeBenchOptions {
  BenchServer server;
  std::string workload;
  std::uint32_t concurrency = 1;
  std::uint32_t requests = 1;
  std::uint32_t output_tokens = 32;
  std::uint64_t seed = 1;
};

struct ServeBenchReport {
  std::vector<RequestSample> samples;  // all requests, failed ones included
  double wall_s = 0;
};

// `on_progress` gets finished requests, from any client thread.
ServeBenchReport run_serve_bench(const ServeBenchOptions& options,
                                 const std::function<void(std::uint32_t)>& on_progress);

// Value below which `share` (0..1) of the values lie (nearest rank); 0 of none.
double percentile(std::vector<double> values, double share);

}  // namespace refrain::cli
