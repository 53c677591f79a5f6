// Clients and samples. Each client thread has its own connection and session; the samples meet
// under one mutex.
#include "cli/serve_bench.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/clock.h"
#include "base/str.h"
#include "cli/workload.h"

namespace refrain::cli {
namespace {

using Json = nlohmann::json;
constexpr std::uint32_t kTimeoutS = 600;
constexpr auto kReplace = Json::error_handler_t::replace;

std::string request_body(const ServeBenchOptions& options, const Session& session) {
  Json messages = Json::array();
  for (const WorkloadMessage& message : session.messages()) {
    messages.push_back({{"role", message.role}, {"content", message.content}});
  }
  const Json body = {{"model", options.server.model},
                     {"messages", messages},
                     {"max_tokens", options.output_tokens},
                     {"temperature", 0},
                     {"stream", true},
                     {"stream_options", {{"include_usage", true}}}};
  return body.dump(-1, ' ', false, kReplace);
}

}  // namespace

ServeBenchReport run_serve_bench(const ServeBenchOptions& options,
                                 const std::function<void(std::uint32_t)>& on_progress) {
  const SteadyClock clock;
  ServeBenchReport report;
  std::mutex mutex;  // guards report.samples
  std::atomic<std::uint32_t> asked{0};
  std::atomic<std::uint64_t> next_session{0};
  const auto client_loop = [&] {
    HttpClient client(options.server.url, options.server.bearer, kTimeoutS);
    for (;;) {
      Session session(options.workload, options.seed, next_session.fetch_add(1));
      bool goes_on = true;
      while (goes_on) {
        if (asked.fetch_add(1) >= options.requests) return;
        StreamedAnswer answer = ask_chat(client, request_body(options, session), clock);
        goes_on = answer.sample.error.empty() && session.answered(answer.text);
        std::lock_guard lock(mutex);
        report.samples.push_back(std::move(answer.sample));
        on_progress(static_cast<std::uint32_t>(report.samples.size()));
      }
    }
  };
  const Tick started = clock.now();
  std::vector<std::thread> clients;
  const std::uint32_t client_count = std::min(options.concurrency, options.requests);
  clients.reserve(client_count);
  for (std::uint32_t i = 0; i < client_count; ++i) clients.emplace_back(client_loop);
  for (std::thread& client : clients) client.join();
  report.wall_s = to_seconds(clock.now() - started);
  return report;
}

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
  return values[std::clamp<std::size_t>(rank, 1, values.size()) - 1];
}

}  // namespace refrain::cli
