// Answers in-process. Main thread; Queue::on_event on the engine thread.
#include "cli/answer.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/channel.h"
#include "base/str.h"
#include "serve/chat_encoder.h"
#include "serve/reuse_words.h"
#include "text/normalizer.h"

namespace refrain::cli {

// Events on their way from the engine thread. The number of events is bounded by the tokens asked
// for plus a few, so only progress events can ever find it full, and those may be lost.
class Answerer::Queue final : public engine::OutputStream {
 public:
  explicit Queue(std::size_t capacity) : events_(capacity) {}
  void on_event(engine::TokenEvent event) override { (void)events_.try_push(std::move(event)); }
  std::optional<engine::TokenEvent> next() { return events_.pop(); }
  void close() { events_.close(); }

 private:
  Channel<engine::TokenEvent> events_;
};

struct Answerer::Session {
  explicit Session(EngineHost& host, const serve::ChatEncoder& encoder)
      : engine(*host.engine),
        summaries(encoder, engine, host.metrics, host.compute.sizing.max_context) {}
  serve::EngineSubmitter engine;
  serve::Summaries summaries;
};

Answerer::Answerer(EngineHost& host, const Settings& settings, Console& console)
    : host_(host),
      settings_(settings),
      console_(console),
      encoder_(*host.compute.loaded.tokenizer,
               host.compute.loaded.chat_template ? &*host.compute.loaded.chat_template : nullptr,
               host.compute.sizing.max_context, host.compute.sizing.longer_by) {
  if (default_summary(settings).on) session_ = std::make_unique<Session>(host, encoder_);
}

Answerer::~Answerer() = default;

engine::GenerateRequest Answerer::make_request(text::EncodedPrompt prompt) const {
  engine::GenerateRequest request;
  const std::uint32_t context = host_.compute.sizing.max_context;
  const std::size_t tokens = prompt.tokens.size();
  const auto room = tokens < context ? context - static_cast<std::uint32_t>(tokens) : 0U;
  // An answer that would not fit is cut short, a prompt that does not fit is refused by submit().
  const auto wanted = static_cast<std::uint32_t>(settings_.integer("--max-tokens"));
  request.max_tokens = std::max(1U, std::min(wanted, room));
  serve::set_prompt(request, std::move(prompt));
  request.sampling = default_sampling(settings_);
  request.reuse = default_reuse(settings_);
  request.context = default_context(settings_);
  if (settings_.is_set("--seed"))
    request.sampling.seed = static_cast<std::uint64_t>(settings_.integer("--seed"));
  request.stop = settings_.list("--stop");
  request.ignore_eos = settings_.boolean("--ignore-eos");
  return request;
}

Result<Answer> Answerer::chat(std::vector<text::ChatMessage> messages, const OnText& on_text) {
  const LoadedModel& loaded = host_.compute.loaded;
  if (!loaded.chat_template.has_value()) {
    return Error{
        Code::kUnsupported, str_cat("model `", loaded.name, "` has no chat template"),
        "continue text with `refrain run --raw`, or give a template with --chat-template FILE"};
  }
  if (settings_.boolean("--normalize-input")) (void)text::normalize_user_messages(messages);
  ASSIGN_OR_RETURN(serve::Shortened shortened, shorten({.messages = std::move(messages)}));
  engine::GenerateRequest request = make_request(std::move(shortened.prompt));
  ASSIGN_OR_RETURN(Answer answer, follow(std::move(request), on_text));
  if (session_ == nullptr) return answer;
  answer.summary = std::move(shortened.report);
  // While the next message is typed.
  if (shortened.task.has_value()) session_->summaries.begin(std::move(*shortened.task));
  return answer;
}

Result<serve::Shortened> Answerer::shorten(text::RenderInput input) {
  if (session_ != nullptr) {
    const auto answer_tokens = static_cast<std::uint32_t>(settings_.integer("--max-tokens"));
    return session_->summaries.shorten(std::move(input), default_summary(settings_),
                                       {.label = "chat"}, answer_tokens);
  }
  ASSIGN_OR_RETURN(text::EncodedPrompt prompt, encoder_.encode(std::move(input)));
  return serve::Shortened{.prompt = std::move(prompt)};
}

Result<Answer> Answerer::complete(std::string_view prompt, const OnText& on_text) {
  TokenList tokens = host_.compute.loaded.tokenizer->encode(prompt, {.add_bos = true});
  if (tokens.empty()) {
    return Error{Code::kInvalidArgument, "the prompt is empty", "give some text to continue"};
  }
  return follow(make_request({.tokens = std::move(tokens), .message_begin = {}}), on_text);
}

Result<Answer> Answerer::follow(engine::GenerateRequest request, const OnText& on_text) {
  constexpr std::size_t kProgressEvents = 1024;
  const auto queue = std::make_shared<Queue>(std::size_t{request.max_tokens} + kProgressEvents);
  RequestId id{};
  {
    std::lock_guard lock(mutex_);
    ASSIGN_OR_RETURN(id, host_.engine->submit(std::move(request), queue));
    running_ = queue;
    running_id_ = id;
  }
  Answer answer;
  std::optional<Error> error;
  bool finished = false;
  while (!finished) {
    const std::optional<engine::TokenEvent> event = queue->next();
    if (!event.has_value()) break;  // interrupted
    using Kind = engine::TokenEvent::Kind;
    if (event->kind == Kind::kPromptProgress && event->progress_total > 0) {
      console_.progress("reading the prompt",
                        static_cast<double>(event->progress_done) / event->progress_total);
    }
    if (event->kind == Kind::kChoiceFinished) answer.finish_reason = event->finish_reason;
    if (event->kind == Kind::kError) error = event->error;
    finished = event->kind == Kind::kFinished || event->kind == Kind::kError;
    if (finished) {
      answer.usage = event->usage;
      answer.timings = event->timings;
    }
    if (event->text.empty()) continue;
    console_.end_progress();
    answer.text += event->text;
    if (!on_text(event->text)) (void)interrupt();
  }
  console_.end_progress();
  std::lock_guard lock(mutex_);
  running_.reset();
  answer.interrupted = !finished || answer.finish_reason == engine::FinishReason::kCancelled;
  if (error.has_value() && !answer.interrupted) return *error;
  return answer;
}

bool Answerer::interrupt() {
  std::lock_guard lock(mutex_);
  if (running_ == nullptr) return false;
  host_.engine->cancel(running_id_);
  running_->close();
  return true;
}

std::string_view finish_name(engine::FinishReason reason) {
  switch (reason) {
    case engine::FinishReason::kStop:
      return "stop";
    case engine::FinishReason::kLength:
      return "length";
    case engine::FinishReason::kCancelled:
      return "cancelled";
    case engine::FinishReason::kDeadline:
      return "deadline";
    case engine::FinishReason::kError:
      break;
  }
  return "error";
}

std::string describe_answer(const Answer& answer) {
  std::array<char, 96> speed{};
  const double rate = answer.timings.tpot_ms > 0 ? 1000.0 / answer.timings.tpot_ms : 0.0;
  std::snprintf(speed.data(), speed.size(), "first token after %.0f ms, %.1f tokens/s",
                answer.timings.ttft_ms, rate);
  const engine::Usage& usage = answer.usage;
  std::string found = str_cat(usage.cached_tokens, " cached");
  if (usage.moved_tokens > 0) found += str_cat(", ", usage.moved_tokens, " moved");
  if (usage.repaired_tokens > 0) found += str_cat(", ", usage.repaired_tokens, " repaired");
  if (usage.refusal != engine::ReuseRefusal::kNone)
    found += str_cat(", none moved: ", serve::reuse_refusal_text(usage.refusal));
  if (answer.summary && answer.summary->replaced_turns > 0)
    found += str_cat(", a summary for ", answer.summary->replaced_turns, " turns");
  if (usage.dropped_tokens > 0) found += str_cat(", ", usage.dropped_tokens, " dropped");
  return str_cat(usage.prompt_tokens, " prompt tokens (", found, "), ", usage.completion_tokens,
                 " generated, ", speed.data());
}

}  // namespace refrain::cli
