// Sequence: one choice of one request while it waits and runs: its tokens, how many of them have
// valid K/V, how the next is sampled and how its text leaves. Knows nothing of blocks, batches or
// other sequences. Owned by ActiveRequest; engine thread.
//
//   tokens    [ prompt ............ | generated ... ]
//   computed  [ rows with K/V ............ )  pending
//
// A sampled token is pending until the next step runs it; when the sequence ends, it never has
// K/V and is not published.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "engine/choice_text.h"
#include "engine/grammar.h"
#include "engine/request.h"
#include "engine/sampler.h"
#include "text/tokenizer.h"

namespace refrain::engine {

class Sequence {
 public:
  Sequence(SequenceId id, std::uint32_t choice, std::uint64_t seed, const GenerateRequest& request);

  SequenceId id() const { return id_; }
  std::uint32_t choice() const { return choice_; }
  RequestId request_id() const { return request_id_; }
  const TokenList& tokens() const { return tokens_; }
  std::uint32_t prompt_tokens() const { return prompt_tokens_; }
  std::uint32_t generated_tokens() const {
    return static_cast<std::uint32_t>(tokens_.size()) - prompt_tokens_;
  }
  std::uint32_t computed() const { return computed_; }
  std::uint32_t pending() const { return static_cast<std::uint32_t>(tokens_.size()) - computed_; }
  bool decoding() const { return generated_tokens() > 0; }

  // Waiting -> holding blocks -> ended.
  bool holds_blocks() const { return holds_blocks_; }
  bool ended() const { return ended_; }
  void admitted(std::uint32_t cached_tokens);
  void rows_computed(std::uint32_t count) { computed_ += count; }
  void end(FinishReason reason) {
    ended_ = true;
    finish_reason_ = reason;
  }
  FinishReason finish_reason() const { return finish_reason_; }
  void blocks_given_back() { holds_blocks_ = false; }

  // Chooses the next token from `logits` ([vocabulary_size], overwritten). Errors of the sampler.
  Result<Sample> sample(std::span<float> logits);
  // Takes a sampled token over. What may be sent is collected for take_event(). The reason if the
  // choice is finished by this token; kInternal if the grammar refuses the token.
  Result<std::optional<FinishReason>> take(const Sample& sample, const text::Tokenizer& tokenizer);
  // Releases what is still held back; for ends that take() did not decide.
  void flush();
  // What was released since the last call; nothing if there is nothing to send.
  std::optional<TokenEvent> take_event();
  const std::string& stop_matched() const { return stop_matched_; }

  Tick first_token_at = 0;
  Tick last_token_at = 0;
  std::uint64_t last_turn = 0;  // when it was served last; for fair turns

 private:
  void collect(ChoiceText::Release release);

  const GenerateRequest& request_;
  const SequenceId id_;
  const RequestId request_id_;
  const std::uint32_t choice_;
  const std::uint32_t prompt_tokens_;
  TokenList tokens_;
  std::uint32_t computed_ = 0;
  bool holds_blocks_ = false;
  bool ended_ = false;
  FinishReason finish_reason_ = FinishReason::kStop;
  bool flushed_ = false;
  Sampler sampler_;
  std::unique_ptr<GrammarState> grammar_;
  ChoiceText text_;
  TokenEvent collected_;
  std::string stop_matched_;
};

// The text pieces of a logprob entry; also used for prompts.
TokenLogprob make_logprob_item(const Sample& sample, const text::Tokenizer& tokenizer);

}  // namespace refrain::engine
