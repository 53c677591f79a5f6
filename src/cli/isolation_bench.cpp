// Arrivals at a rate, each on its own thread.
#include "cli/isolation_bench.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/rng.h"
#include "base/str.h"
#include "cli/workload.h"

namespace refrain::cli {
namespace {

constexpr std::uint32_t kTimeoutS = 600;
constexpr std::uint32_t kTrialWords = 100;
// A lone long prompt before and after everything else, so that a machine that changes shows.
constexpr int kLongAlone = 2;

class IsolationBench {
 public:
  IsolationBench(const IsolationBenchOptions& options,
                 const std::function<void(double)>& on_progress)
      : options_(options), on_progress_(on_progress), gaps_(text_seed(Texts::kGaps, 0)) {}

  Result<IsolationBenchReport> run() {
    RETURN_IF_ERROR(weigh_words());
    report_.long_alone.push_back(ask_long());
    std::atomic<bool> beside{false};  // no long one is there to wait for
    send_short(report_.short_alone, beside, 0.1);
    beside = true;
    std::thread long_ones([&] {
      while (beside) report_.long_beside.push_back(ask_long());
      stop_ = true;
    });
    send_short(report_.short_beside, beside, 0.4);
    long_ones.join();
    while (report_.long_alone.size() < kLongAlone) report_.long_alone.push_back(ask_long());
    on_progress_(1);
    return std::move(report_);
  }

 private:
  // What the numbers of a seed are drawn for; each kind has its own.
  enum class Texts : std::uint64_t { kGaps, kTrial, kShort, kLong };

  std::uint64_t text_seed(Texts kind, std::uint64_t index) const {
    return (options_.seed * 4 + static_cast<std::uint64_t>(kind)) * 10'000'019 + index;
  }

  RequestSample ask(Texts kind, std::uint64_t index, std::uint32_t tokens,
                    std::uint32_t output_tokens) {
    Rng rng(text_seed(kind, index));
    std::string text = random_words(
        rng, std::max<std::size_t>(1, static_cast<std::size_t>(tokens / tokens_per_word_)));
    const nlohmann::json body = {{"model", options_.server.model},
                                 {"messages", {{{"role", "user"}, {"content", std::move(text)}}}},
                                 {"max_tokens", output_tokens},
                                 {"temperature", 0},
                                 {"stream", true},
                                 {"stream_options", {{"include_usage", true}}}};
    HttpClient client(options_.server.url, options_.server.bearer, kTimeoutS);
    return ask_chat(client, body.dump(), clock_).sample;
  }

  // From one thread at a time.
  RequestSample ask_long() { return ask(Texts::kLong, long_count_++, options_.long_tokens, 1); }

  // How many tokens the server makes of the generated words.
  Result<void> weigh_words() {
    const RequestSample few = ask(Texts::kTrial, 0, 1, 1);
    const RequestSample more = ask(Texts::kTrial, 1, kTrialWords, 1);
    for (const RequestSample* sample : {&few, &more})
      if (!sample->error.empty())
        return Error{Code::kUnavailable, str_cat("the first request failed: ", sample->error),
                     "see --url and --api-key"};
    report_.least_prompt_tokens = few.prompt_tokens;
    if (more.prompt_tokens > few.prompt_tokens)
      tokens_per_word_ =
          static_cast<double>(more.prompt_tokens - few.prompt_tokens) / (kTrialWords - 1);
    return {};
  }

  // Sends the short requests at the rate and waits for all answers. While long ones are in flight
  // (`beside`) it tells when there were enough, and goes on until the last of those has ended.
  void send_short(std::vector<RequestSample>& samples, std::atomic<bool>& beside, double done) {
    std::mutex mutex;  // guards samples
    std::vector<std::thread> requests;
    const bool waits = beside;
    auto next = std::chrono::steady_clock::now();
    for (std::uint32_t sent = 0; sent < options_.requests || (waits && !stop_); ++sent) {
      if (sent == options_.requests) beside = false;
      next += gap();
      std::this_thread::sleep_until(next);
      requests.emplace_back([&, index = short_count_++] {
        RequestSample sample =
            ask(Texts::kShort, index, options_.short_tokens, options_.output_tokens);
        std::lock_guard lock(mutex);
        samples.push_back(std::move(sample));
      });
      on_progress_(done + 0.5 * std::min(1.0, static_cast<double>(sent) / options_.requests));
    }
    beside = false;
    for (std::thread& request : requests) request.join();
  }

  std::chrono::nanoseconds gap() {
    const double scatter = 0.5 + static_cast<double>(gaps_.below(1001)) / 1000;
    return std::chrono::nanoseconds(
        static_cast<std::int64_t>(scatter * static_cast<double>(kSecond) / options_.rate_per_s));
  }

  const IsolationBenchOptions& options_;
  const std::function<void(double)>& on_progress_;
  const SteadyClock clock_;
  Rng gaps_;
  std::uint64_t short_count_ = 0, long_count_ = 0;
  double tokens_per_word_ = 1;
  std::atomic<bool> stop_{false};  // no long prompt is in flight any more
  IsolationBenchReport report_;
};

}  // namespace

Result<IsolationBenchReport> run_isolation_bench(const IsolationBenchOptions& options,
                                                 const std::function<void(double)>& on_progress) {
  return IsolationBench(options, on_progress).run();
}

}  // namespace refrain::cli
