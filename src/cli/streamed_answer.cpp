// Server-sent events in, times and usage out. One owner, any one thread.
#include "cli/streamed_answer.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/str.h"
#include "cli/sse.h"

namespace refrain::cli {
namespace {

using Json = nlohmann::json;
constexpr auto kReplace = Json::error_handler_t::replace;

std::uint64_t count_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

// What one streamed answer told so far.
struct StreamReading {
  const Clock& clock;
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

}  // namespace

StreamedAnswer ask_chat(HttpClient& client, const std::string& body, const Clock& clock) {
  StreamReading reading{.clock = clock, .sample = {}, .text = {}};
  SseParser parser;
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
  return {std::move(reading.sample), std::move(reading.text)};
}

}  // namespace refrain::cli
