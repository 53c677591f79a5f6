// See summary_job.h.
#include "serve/summary_job.h"

#include <algorithm>
#include <vector>

#include "base/str.h"

namespace refrain::serve {
namespace {

// Greedy answers of small models fall into repeating themselves; more of it makes them invent.
constexpr float kRepetitionPenalty = 1.05F;

// Stands for a turn that no context can hold together with a summary.
constexpr std::string_view kTooLong = "(A message that was too long to be summarised came here.)";
constexpr std::size_t kLongestCycle = 8;  // sentences that are said again as a whole

// A summary that ran into its limit ends with its last whole sentence, if that is most of it.
std::string_view whole_sentences(std::string_view text) {
  std::size_t end = 0;
  for (const std::string_view mark : {".", "!", "?", "\n", "\u3002", "\uff01", "\uff1f"}) {
    const std::size_t at = text.rfind(mark);
    if (at != std::string_view::npos) end = std::max(end, at + mark.size());
  }
  return end < text.size() / 2 ? text : text.substr(0, end);
}

// What a model thought before it wrote is no part of it; "" if it never came to writing.
std::string_view without_thoughts(std::string_view text) {
  constexpr std::string_view kEnd = "</think>";
  const std::size_t end = text.rfind(kEnd);
  if (end != std::string_view::npos) return text.substr(end + kEnd.size());
  return text.find("<think>") == std::string_view::npos ? text : std::string_view();
}

}  // namespace

std::size_t tokens_before(const text::EncodedPrompt& prompt, std::size_t message) {
  // A message without text says nothing about its place: the next one is close by.
  for (std::size_t i = message; i < prompt.message_begin.size(); ++i)
    if (prompt.message_begin[i] < prompt.tokens.size()) return prompt.message_begin[i];
  return prompt.tokens.size();
}

std::size_t tokens_before(const text::EncodedPrompt& prompt, const Conversation& conversation,
                          const Replaced& replaced, std::size_t turn) {
  return tokens_before(prompt, conversation.shortened_begin(replaced, turn));
}

std::string without_repeats(std::string_view text) {
  std::vector<std::string_view> sentences;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(".!?\n"), text.size() - 1) + 1;
    sentences.push_back(text.substr(0, end));
    text.remove_prefix(end);
    // The last `length` sentences are those before them once more.
    for (std::size_t length = 1; length <= std::min(kLongestCycle, sentences.size() / 2);
         ++length) {
      const auto again = sentences.end() - static_cast<std::ptrdiff_t>(length);
      if (!std::equal(again, sentences.end(), again - static_cast<std::ptrdiff_t>(length),
                      [](auto one, auto other) { return trim(one) == trim(other); }))
        continue;
      sentences.erase(again, sentences.end());
      break;
    }
  }
  std::string kept;
  for (const std::string_view sentence : sentences) kept += sentence;
  return kept;
}

SummaryJob::SummaryJob(const ChatEncoder& encoder, SummaryBook& book, std::uint32_t max_context,
                       SummaryTask task)
    : encoder_(encoder),
      book_(book),
      max_context_(max_context),
      task_(std::move(task)),
      section_(task_.so_far.section + 1),
      begin_(task_.so_far_end) {}

SummaryJob::~SummaryJob() {
  book_.give_up(key());
}

// Once there is a summary, what is left is to compute ahead: nothing is lost without it.
void SummaryJob::fail() {
  step_ = step_ == Step::kComputing ? Step::kDone : Step::kFailed;
}

Result<text::EncodedPrompt> SummaryJob::encode(std::vector<text::ChatMessage> messages,
                                               bool for_summary) const {
  text::RenderInput input = task_.frame;
  input.messages = std::move(messages);
  input.add_generation_prompt = true;
  input.continue_final_message = false;
  if (for_summary && input.extra_json.empty()) input.extra_json = R"({"enable_thinking": false})";
  return encoder_.encode(std::move(input));
}

engine::GenerateRequest SummaryJob::request(text::EncodedPrompt prompt) const {
  engine::GenerateRequest request;
  set_prompt(request, std::move(prompt));
  request.label = task_.owner.label + "-summary";
  request.tenant = task_.owner.tenant;
  request.salt = task_.owner.salt;
  request.use_cache = task_.owner.use_cache;
  request.gives_way = true;
  return request;
}

std::optional<engine::GenerateRequest> SummaryJob::next() {
  if (step_ == Step::kAsking && asked_ && !conclude()) step_ = Step::kFailed;
  while (step_ == Step::kAsking && task_.so_far_end < task_.end)
    if (auto request = ask()) return request;
  if (step_ == Step::kAsking) return compute();
  if (step_ == Step::kComputing) step_ = Step::kDone;
  return std::nullopt;
}

// As many turns at once as fit into a context beside head, summary so far, and summary to come.
// Nothing if a turn was passed over, or the job has failed.
std::optional<engine::GenerateRequest> SummaryJob::ask() {
  const Conversation& conversation = *task_.conversation;
  const Replaced before = replaced();
  const std::size_t most = max_context_ - std::min(max_context_, task_.summary_tokens);
  const std::size_t other_bytes =
      conversation.head_bytes() + before.text.size() + 2 * kSummaryRequest.size();
  const std::size_t most_bytes = encoder_.most_text_bytes();
  piece_end_ = std::min(task_.end, conversation.end_within(
                                       before.end, most_bytes - std::min(most_bytes, other_bytes)));
  Result<text::EncodedPrompt> prompt = encode(conversation.asking(before, piece_end_), true);
  if (!prompt.ok() && prompt.error().code == Code::kContextLength)
    return pass_over(0), std::nullopt;
  if (!prompt.ok()) return fail(), std::nullopt;
  const std::size_t begin = tokens_before(*prompt, conversation, before, before.end);
  keep_piece(begin - tokens_before(*prompt, conversation.turn_begin(0)));
  const auto tokens_up_to = [&](std::size_t end) {
    return tokens_before(*prompt, conversation, before, end) - begin;
  };
  piece_tokens_ = static_cast<std::uint32_t>(tokens_up_to(piece_end_));
  if (prompt->tokens.size() > most) {
    const std::size_t beside = prompt->tokens.size() - piece_tokens_;
    if (beside >= most) return fail(), std::nullopt;
    const std::size_t first_tokens = tokens_up_to(before.end + 1);
    while (piece_end_ > before.end && beside + tokens_up_to(piece_end_) > most) --piece_end_;
    if (piece_end_ == before.end) return pass_over(first_tokens), std::nullopt;
    piece_tokens_ = static_cast<std::uint32_t>(tokens_up_to(piece_end_));
    prompt = encode(conversation.asking(before, piece_end_), true);
    if (!prompt.ok() || prompt->tokens.size() > most) return fail(), std::nullopt;
  }
  engine::GenerateRequest summary = request(std::move(*prompt));
  summary.max_tokens = task_.summary_tokens;
  summary.sampling.temperature = 0;
  summary.sampling.repetition_penalty = kRepetitionPenalty;
  asked_ = true;
  text_.clear();
  cut_short_ = false;
  return summary;
}

// A turn that cannot be asked about is named instead.
void SummaryJob::pass_over(std::size_t tokens) {
  Conclusion& so_far = task_.so_far;
  if (!so_far.text.ends_with(kTooLong))
    so_far.text += str_cat(so_far.text.empty() ? "" : "\n", kTooLong);
  so_far.replaced_tokens += static_cast<std::uint32_t>(tokens);
  so_far.section = section_;
  ++task_.so_far_end;
}

// A job that is broken off later goes on from here.
void SummaryJob::keep_piece(std::size_t summary_tokens) {
  if (task_.so_far_end == begin_) return;
  task_.so_far.summary_tokens = static_cast<std::uint32_t>(summary_tokens);
  book_.finish(task_.conversation->key(task_.so_far_end), task_.so_far);
}

void SummaryJob::take(engine::TokenEvent event) {
  using Kind = engine::TokenEvent::Kind;
  if (step_ != Step::kAsking) return;  // a prompt that could not be computed is computed later
  text_ += event.text;
  if (event.kind == Kind::kError) fail();
  if (event.kind != Kind::kChoiceFinished) return;
  cut_short_ = event.finish_reason == engine::FinishReason::kLength;
  if (!cut_short_ && event.finish_reason != engine::FinishReason::kStop) fail();
}

// What came becomes the summary so far.
bool SummaryJob::conclude() {
  asked_ = false;
  const std::string_view said = trim(without_thoughts(text_));
  const std::string whole = without_repeats(cut_short_ ? whole_sentences(said) : said);
  const std::string_view text = trim(whole);
  // A model that was given tools may call one instead.
  if (text.empty() || text.starts_with("<tool_call>")) return false;
  Conclusion conclusion;
  conclusion.text = std::string(text);
  conclusion.replaced_tokens = task_.so_far.replaced_tokens + piece_tokens_;
  conclusion.section = section_;
  task_.so_far = std::move(conclusion);
  task_.so_far_end = piece_end_;
  return true;
}

std::optional<engine::GenerateRequest> SummaryJob::compute() {
  const Conversation& conversation = *task_.conversation;
  const Replaced after = replaced();
  Result<text::EncodedPrompt> prompt = encode(conversation.shortened(after, after.end), false);
  if (!prompt.ok()) return fail(), std::nullopt;
  step_ = Step::kComputing;
  keep_piece(tokens_before(*prompt, conversation, after, after.end) -
             tokens_before(*prompt, conversation.turn_begin(0)));
  if (!task_.owner.use_cache || prompt->tokens.size() + 1 > max_context_) {
    step_ = Step::kDone;
    return std::nullopt;
  }
  return request(std::move(*prompt));
}

}  // namespace refrain::serve
