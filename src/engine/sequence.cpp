#include "engine/sequence.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "base/check.h"

namespace refrain::engine {

TokenLogprob make_logprob_item(const Sample& sample, const text::Tokenizer& tokenizer) {
  TokenLogprob item;
  item.token = sample.token;
  item.bytes = std::string(tokenizer.piece(sample.token));
  item.logprob = sample.logprob.value_or(std::numeric_limits<float>::quiet_NaN());
  item.top.reserve(sample.top.size());
  for (const TokenProbability& entry : sample.top)
    item.top.push_back(TokenLogprob::Alternative{
        entry.token, std::string(tokenizer.piece(entry.token, /*render_special=*/true)),
        entry.logprob});
  return item;
}

Sequence::Sequence(SequenceId id, std::uint32_t choice, std::uint64_t seed,
                   const GenerateRequest& request)
    : request_(request),
      id_(id),
      request_id_(request.id),
      choice_(choice),
      prompt_tokens_(static_cast<std::uint32_t>(request.prompt.size())),
      tokens_(request.prompt),
      sampler_(request.sampling, seed, request.prompt),
      grammar_(request.grammar ? GrammarCompiler::start(*request.grammar) : nullptr),
      text_(request.stop) {
  collected_.choice = choice;
}

void Sequence::admitted(std::uint32_t cached_tokens) {
  CHECK(!holds_blocks_ && !ended_, "a sequence is admitted once, or begins again");
  CHECK(cached_tokens < tokens_.size(), "at least one row is computed");
  holds_blocks_ = true;
  computed_ = reused_ = cached_tokens;
}

std::uint32_t Sequence::pending() const {
  if (trim_ != nullptr && trim_->looking()) return 0;
  if (repairing()) return static_cast<std::uint32_t>(repair_->pending().size());
  const auto end = repair_ != nullptr ? static_cast<std::uint32_t>(repair_->first_row())
                                      : static_cast<std::uint32_t>(tokens_.size());
  return end - computed_;
}

void Sequence::end_repair() {
  CHECK(repairing() && repair_->state() != PromptRepair::State::kRunning, "a repair that goes on");
  if (repair_->state() == PromptRepair::State::kAccepted) {
    computed_ = prompt_tokens_;
    open_tile_ = std::move(repair_->open_tile());
  }
  repair_.reset();
}

void Sequence::begin_again() {
  CHECK(!holds_blocks_ && !ended_ && !begun_again_, "an exact sequence has no reason to");
  begun_again_ = true;
  computed_ = reused_ = 0;
  is_approximate = false;
  expected_divergence.reset();
  repair_.reset();
  runs_.clear();
  approximate_.reset();
}

Result<Sample> Sequence::sample(std::span<float> logits) {
  return sampler_.sample(logits, grammar_.get());
}

Result<std::optional<FinishReason>> Sequence::take(const Sample& sample,
                                                   const text::Tokenizer& tokenizer) {
  const TokenId token = sample.token;
  if (grammar_ && !grammar_->accept(token))
    return Error{Code::kInternal, "the grammar refused a token that it had allowed"};
  tokens_.push_back(token);
  collected_.tokens.push_back(token);
  using Ended = std::optional<FinishReason>;
  if (tokenizer.is_end_of_generation(token) && !request_.ignore_eos) {
    flush();
    return Ended(FinishReason::kStop);
  }
  if (std::find(request_.stop_tokens.begin(), request_.stop_tokens.end(), token) !=
      request_.stop_tokens.end()) {
    flush();
    if (stop_matched_.empty())
      stop_matched_ = std::string(tokenizer.piece(token, /*render_special=*/true));
    return Ended(FinishReason::kStop);
  }
  std::optional<TokenLogprob> item;
  if (sample.logprob) item = make_logprob_item(sample, tokenizer);
  collect(text_.push(tokenizer.piece(token), std::move(item)));
  if (!stop_matched_.empty()) return Ended(FinishReason::kStop);
  if (grammar_ && grammar_->finished()) {
    flush();
    return Ended(FinishReason::kStop);
  }
  if (generated_tokens() < request_.max_tokens) return Ended(std::nullopt);
  flush();  // an incomplete code point may still complete a stop string
  return Ended(stop_matched_.empty() ? FinishReason::kLength : FinishReason::kStop);
}

void Sequence::flush() {
  if (flushed_) return;
  collect(text_.finish());
  flushed_ = true;
}

void Sequence::collect(ChoiceText::Release release) {
  collected_.text += release.text;
  std::move(release.logprobs.begin(), release.logprobs.end(),
            std::back_inserter(collected_.logprobs));
  if (release.stopped) {
    stop_matched_ = std::move(release.matched);
    flushed_ = true;  // what is held back belongs to the stop string
  }
}

std::optional<TokenEvent> Sequence::take_event() {
  const bool at_end = flushed_ && !collected_.tokens.empty();
  if (collected_.text.empty() && collected_.logprobs.empty() && !at_end) return std::nullopt;
  TokenEvent event = std::exchange(collected_, TokenEvent{});
  collected_.choice = choice_;
  event.kind = TokenEvent::Kind::kText;
  return event;
}

}  // namespace refrain::engine
