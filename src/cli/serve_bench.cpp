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
#include "cli/sse.h"
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
  const Json body = {{"model", options.model},
                     {"messages", messages},
                     {"max_tokens", options.output_tokens},
                     {"temperature", 0},
                     {"stream", true},
                     {"stream_options", {{"include_usage", true}}}};
  return body.dump(-1, ' ', false, kReplace);
}

std::uint64_t count_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

// What one streamed answer told so far.
struct StreamReading {
  const SteadyClock& clock;
  RequestSample sample;
  std::string text;
  Tick started = 0, first = 0, last = 0;
  std::uint64_t chunks = 0;

  void take_text(const Json& delta) {
    const auto content = delta.find("content");
    if (content == delta.end() || !content->is_string() ||
        content->get_ref<const std::string&>().empty())
      return;
    text += content->get_ref<const std::string&>();
    last = clock.now();
    if (first == 0) first = last;
    ++chunks;
  }

  void take(std::string_view data) {
    if (data == "[DONE]") return;
    const Json event = Json::parse(data, nullptr, /*allow_exceptions=*/false);
    if (!event.is_object()) {
      sample.error = "an event that is no JSON object";
      return;
    }
    if (const auto error = event.find("error"); error != event.end() && !error->is_null()) {
      sample.error = error->dump(-1, ' ', false, kReplace).substr(0, 200);
    }
    if (const auto choices = event.find("choices"); choices != event.end() && choices->is_array()) {
      for (const Json& choice : *choices) {
        if (choice.is_object() && choice.contains("delta") && choice["delta"].is_object())
          take_text(choice["delta"]);
      }
    }
    const auto usage = event.find("usage");
    if (usage == event.end() || !usage->is_object()) return;
    sample.prompt_tokens = count_at(*usage, "prompt_tokens");
    sample.completion_tokens = count_at(*usage, "completion_tokens");
    if (const auto details = usage->find("prompt_tokens_details");
        details != usage->end() && details->is_object()) {
      sample.cached_tokens = count_at(*details, "cached_tokens");
    }
  }

  void finish() {
    // Servers without usage: one chunk per token is the best guess there is.
    if (sample.completion_tokens == 0) sample.completion_tokens = chunks;
    const Tick ended = clock.now();
    sample.total_ms = to_milliseconds(ended - started);
    if (first != 0) sample.ttft_ms = to_milliseconds(first - started);
    if (sample.completion_tokens > 1 && last > first) {
      sample.tpot_ms =
          to_milliseconds(last - first) / static_cast<double>(sample.completion_tokens - 1);
    }
  }
};

StreamReading ask(HttpClient& client, const ServeBenchOptions& options, const Session& session,
                  const SteadyClock& clock) {
  StreamReading reading{.clock = clock, .sample = {}, .text = {}};
  SseParser parser;
  const std::string body = request_body(options, session);
  reading.started = clock.now();
  const Result<HttpReply> reply =
      client.post("/v1/chat/completions", body, [&](std::string_view bytes) {
        return parser.push(bytes, [&](std::string_view data) { reading.take(data); });
      });
  if (!reply.ok()) {
    reading.sample.error = reply.error().message;
  } else if (reply->status != 200) {
    reading.sample.error = str_cat("HTTP ", reply->status, " ", reply->body.substr(0, 200));
  }
  reading.finish();
  return reading;
}

}  // namespace

Result<std::string> first_model(const Url& url, const std::string& bearer) {
  HttpClient client(url, bearer, 30);
  ASSIGN_OR_RETURN(const HttpReply reply, client.get("/v1/models"));
  const Json json = Json::parse(reply.body, nullptr, false);
  if (reply.status != 200 || !json.is_object() || !json.contains("data") ||
      !json["data"].is_array() || json["data"].empty() || !json["data"][0].is_object() ||
      !json["data"][0].contains("id") || !json["data"][0]["id"].is_string()) {
    return Error{
        Code::kUnavailable, str_cat("/v1/models answered HTTP ", reply.status, " without a model"),
        reply.status == 401 ? "give the key with --api-key" : "name the model with --alias"};
  }
  return json["data"][0]["id"].get<std::string>();
}

ServeBenchReport run_serve_bench(const ServeBenchOptions& options,
                                 const std::function<void(std::uint32_t)>& on_progress) {
  const SteadyClock clock;
  ServeBenchReport report;
  std::mutex mutex;  // guards report.samples
  std::atomic<std::uint32_t> asked{0};
  std::atomic<std::uint64_t> next_session{0};
  const auto client_loop = [&] {
    HttpClient client(options.url, options.bearer, kTimeoutS);
    for (;;) {
      Session session(options.workload, options.seed, next_session.fetch_add(1));
      bool goes_on = true;
      while (goes_on) {
        if (asked.fetch_add(1) >= options.requests) return;
        StreamReading reading = ask(client, options, session, clock);
        goes_on = reading.sample.error.empty() && session.answered(reading.text);
        std::lock_guard lock(mutex);
        report.samples.push_back(std::move(reading.sample));
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
