// What long prompts cost short requests, and the other way round (REQUIREMENTS B6): the client
// behind `refrain bench isolation`. Speaks plain OpenAI, so that it also measures other servers.
//
//   short alone    s   s  s    s   s  s              arrivals at a rate, whether answered or not
//   long alone     LLLLLLLLLLL
//   both           LLLLLLLLLLLLLLLLLLLLLLLLL          one long prompt after the other, all the time
//                   s   s  s    s   s  s
//
// Every prompt of a run is another text, so nothing is found in a cache, as long as the server has
// not seen a run of the same seed. Prompt i of the short ones, and of the long ones, is the same
// for the same seed. One thread per request.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/bench_server.h"
#include "cli/streamed_answer.h"

namespace refrain::cli {

struct IsolationBenchOptions {
  BenchServer server;
  std::uint32_t short_tokens = 0;   // of a prompt, roughly
  std::uint32_t long_tokens = 0;    // likewise
  double rate_per_s = 0;            // short requests; gaps scatter evenly by half
  std::uint32_t requests = 0;       // short ones, alone and again beside long ones
  std::uint32_t output_tokens = 0;  // of a short one
  std::uint64_t seed = 0;
};

struct IsolationBenchReport {
  std::uint64_t least_prompt_tokens = 0;  // of a prompt of one word: what all prompts may share
  std::vector<RequestSample> short_alone, short_beside;
  std::vector<RequestSample> long_alone, long_beside;
};

// kUnavailable where the server answers no first request. Failed requests are in the report.
// `on_progress` gets the share that is done; on the calling thread.
Result<IsolationBenchReport> run_isolation_bench(const IsolationBenchOptions& options,
                                                 const std::function<void(double)>& on_progress);

}  // namespace refrain::cli
