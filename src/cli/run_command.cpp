// `refrain run`: one answer to stdout. Main thread.
#include <nlohmann/json.hpp>

#include "base/str.h"
#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/signals.h"
#include "serve/reuse_words.h"

namespace refrain::cli {
namespace {

nlohmann::ordered_json usage_json(const engine::Usage& usage) {
  nlohmann::ordered_json json = {
      {"prompt_tokens", usage.prompt_tokens},     {"cached_tokens", usage.cached_tokens},
      {"moved_tokens", usage.moved_tokens},       {"repaired_tokens", usage.repaired_tokens},
      {"computed_tokens", usage.computed_tokens}, {"completion_tokens", usage.completion_tokens}};
  if (usage.divergence_estimate.has_value())
    json["divergence_estimate"] = *usage.divergence_estimate;
  if (usage.refusal != engine::ReuseRefusal::kNone)
    json["reuse_refusal"] = serve::reuse_refusal_text(usage.refusal);
  return json;
}

std::string answer_json(const Answer& answer, const std::string& model) {
  const nlohmann::ordered_json json = {{"model", model},
                                       {"text", answer.text},
                                       {"finish_reason", finish_name(answer.finish_reason)},
                                       {"usage", usage_json(answer.usage)},
                                       {"timings",
                                        {{"ttft_ms", answer.timings.ttft_ms},
                                         {"tpot_ms", answer.timings.tpot_ms},
                                         {"prefill_ms", answer.timings.prefill_ms},
                                         {"decode_ms", answer.timings.decode_ms}}}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::vector<text::ChatMessage> as_messages(const Settings& settings, const std::string& prompt) {
  std::vector<text::ChatMessage> messages;
  if (!settings.text("--system").empty())
    messages.push_back({.role = "system", .content = settings.text("--system")});
  messages.push_back({.role = "user", .content = prompt});
  return messages;
}

}  // namespace

Exit run_run(const Settings& settings, Console& console) {
  SignalWatcher signals(false);
  signals.set_handler([](int, int) { leave_now(static_cast<int>(Exit::kFailed)); });
  const Result<std::string> prompt = argument_or_stdin(settings);
  if (!prompt.ok()) return fail(prompt.error(), console);
  auto host = EngineHost::start(settings, console);
  if (!host.ok()) return fail(host.error(), console);
  Answerer answerer(**host, settings, console);
  signals.set_handler([&](int, int count) {
    if (count > 1 || !answerer.interrupt()) leave_now(static_cast<int>(Exit::kFailed));
  });
  const bool as_json = settings.boolean("--json");
  const auto on_text = [&](std::string_view piece) { return as_json || console.out(piece); };
  const Result<Answer> answer = settings.boolean("--raw")
                                    ? answerer.complete(*prompt, on_text)
                                    : answerer.chat(as_messages(settings, *prompt), on_text);
  signals.set_handler([](int, int) { leave_now(static_cast<int>(Exit::kFailed)); });
  if (!answer.ok()) return fail(answer.error(), console);
  if (as_json) {
    console.out(answer_json(*answer, (*host)->compute.loaded.name));
  } else {
    console.out("\n");
  }
  if (settings.boolean("--stats")) console.say(describe_answer(*answer));
  return answer->interrupted ? Exit::kFailed : Exit::kOk;
}

}  // namespace refrain::cli
