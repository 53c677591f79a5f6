// See summary_job.h.
#include "serve/summary_job.h"

#include <algorithm>
#include <unordered_set>

#include "base/str.h"

namespace refrain::serve {
namespace {

// Greedy answers of small models fall into repeating themselves; more of it makes them invent.
constexpr float kRepetitionPenalty = 1.05F;

// A summary that ran into its limit ends with its last whole sentence, if that is most of it.
std::string_view whole_sentences(std::string_view text) {
  const std::size_t end = text.find_last_of(".!?\n");
  return end == std::string_view::npos || end < text.size() / 2 ? text : text.substr(0, end + 1);
}

constexpr std::size_t kShortestRepeatBytes = 12;  // "3." may come twice

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
  std::string kept;
  std::unordered_set<std::string_view> seen;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(".!?\n"), text.size() - 1) + 1;
    const std::string_view sentence = text.substr(0, end);
    text.remove_prefix(end);
    const std::string_view words = trim(sentence);
    if (words.size() < kShortestRepeatBytes || seen.insert(words).second) kept += sentence;
  }
  return kept;
}

SummaryJob::SummaryJob(const ChatEncoder& encoder, SummaryBook& book, std::uint32_t max_context,
                       SummaryTask task)
    : encoder_(encoder),
      book_(book),
      max_context_(max_context),
      task_(std::move(task)),
      section_(task_.so_far.section + 1) {}

SummaryJob::~SummaryJob() {
  if (!succeeded()) book_.finish(key(), std::nullopt);
}

Result<text::EncodedPrompt> SummaryJob::encode(std::vector<text::ChatMessage> messages) const {
  text::RenderInput input = task_.frame;
  input.messages = std::move(messages);
  return encoder_.encode(std::move(input));
}

engine::GenerateRequest SummaryJob::request(text::EncodedPrompt prompt) const {
  engine::GenerateRequest request;
  request.prompt = std::move(prompt.tokens);
  request.message_begin = std::move(prompt.message_begin);
  request.label = task_.owner.label + "-summary";
  request.tenant = task_.owner.tenant;
  request.salt = task_.owner.salt;
  request.use_cache = task_.owner.use_cache;
  request.gives_way = true;
  return request;
}

std::optional<engine::GenerateRequest> SummaryJob::next() {
  if (step_ == Step::kAsking && asked_ && !conclude()) step_ = Step::kFailed;
  if (step_ == Step::kAsking && task_.so_far_end == task_.end) {
    step_ = Step::kComputing;
    return compute();
  }
  if (step_ == Step::kAsking) return ask();
  if (step_ == Step::kComputing) step_ = Step::kDone;
  return std::nullopt;
}

// As many turns at once as fit into a context beside head, summary so far, and summary to come.
std::optional<engine::GenerateRequest> SummaryJob::ask() {
  const Conversation& conversation = *task_.conversation;
  const Replaced before = replaced();
  const Result<text::EncodedPrompt> whole = encode(conversation.shortened(before, before.end));
  const Result<text::EncodedPrompt> no_turn = encode(conversation.asking(before, before.end));
  if (!whole.ok() || !no_turn.ok()) return fail(), std::nullopt;
  const std::size_t taken = no_turn->tokens.size() + task_.summary_tokens;
  const std::size_t begin = tokens_before(*whole, conversation, before, before.end);
  const auto tokens_up_to = [&](std::size_t end) {
    return tokens_before(*whole, conversation, before, end) - begin;
  };
  piece_end_ = task_.end;
  while (piece_end_ > before.end + 1 && taken + tokens_up_to(piece_end_) > max_context_)
    --piece_end_;
  piece_tokens_ = static_cast<std::uint32_t>(tokens_up_to(piece_end_));
  Result<text::EncodedPrompt> prompt = encode(conversation.asking(before, piece_end_));
  if (!prompt.ok() || prompt->tokens.size() + task_.summary_tokens > max_context_)
    return fail(), std::nullopt;
  engine::GenerateRequest summary = request(std::move(*prompt));
  summary.max_tokens = task_.summary_tokens;
  summary.sampling.temperature = 0;
  summary.sampling.repetition_penalty = kRepetitionPenalty;
  asked_ = true;
  text_.clear();
  cut_short_ = false;
  return summary;
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
  const std::string whole = without_repeats(cut_short_ ? whole_sentences(text_) : text_);
  const std::string_view text = trim(whole);
  if (text.empty()) return false;
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
  Result<text::EncodedPrompt> prompt = encode(conversation.shortened(after, after.end));
  if (!prompt.ok()) return fail(), std::nullopt;
  const std::size_t begin = tokens_before(*prompt, conversation, after, after.end);
  const std::size_t head = tokens_before(*prompt, conversation.turn_begin(0));
  task_.so_far.summary_tokens = static_cast<std::uint32_t>(begin - std::min(begin, head));
  book_.finish(key(), task_.so_far);
  if (!task_.owner.use_cache || prompt->tokens.size() + 1 > max_context_) {
    step_ = Step::kDone;
    return std::nullopt;
  }
  return request(std::move(*prompt));
}

}  // namespace refrain::serve
