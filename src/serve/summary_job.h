// SummaryJob: the model's work on one conversation, beside its answers: the older turns are
// summarised, in as many pieces as the longest context asks for, and then the shortened prompt is
// computed, so that the next turn finds it in the cache. Makes one engine request after the other;
// who runs it submits them and gives back what comes of them.
//
//   turns 0 .. 8 to be replaced:   [ask: turns 0-5] [ask: summary, turns 6-8] [compute: summary, 9
//   ...]
//
// One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/hash.h"
#include "engine/request.h"
#include "serve/chat_encoder.h"
#include "serve/conversation.h"
#include "serve/summary_book.h"
#include "serve/summary_rule.h"

namespace refrain::serve {

// For whom the engine works, and in which cache space.
struct SummaryOwner {
  std::string label;  // of the answer that it began with
  std::string tenant;
  Hash128 salt{};
  bool use_cache = true;
};

struct SummaryTask {
  std::shared_ptr<const Conversation> conversation;
  text::RenderInput frame;  // without messages: tools and template arguments
  SummaryOwner owner;
  std::uint32_t summary_tokens = 0;  // at most so many for a summary
  std::size_t so_far_end = 0;        // turns that `so_far` stands for
  Conclusion so_far;
  std::size_t end = 0;  // the first turn that stays
};

// A text that says nothing twice in a row, neither a sentence nor several of them.
std::string without_repeats(std::string_view text);

// Tokens in front of the text of a message, and of a turn of a shortened conversation.
std::size_t tokens_before(const text::EncodedPrompt& prompt, std::size_t message);
std::size_t tokens_before(const text::EncodedPrompt& prompt, const Conversation& conversation,
                          const Replaced& replaced, std::size_t turn);

class SummaryJob {
 public:
  SummaryJob(const ChatEncoder& encoder, SummaryBook& book, std::uint32_t max_context,
             SummaryTask task);
  ~SummaryJob();  // what is not finished has failed

  const Hash128& key() const { return task_.conversation->key(task_.end); }
  // The next request; nothing if the job is done or has failed.
  std::optional<engine::GenerateRequest> next();
  void take(engine::TokenEvent event);
  void fail();

  bool succeeded() const { return step_ == Step::kComputing || step_ == Step::kDone; }
  std::uint32_t replaced_tokens() const { return task_.so_far.replaced_tokens; }

 private:
  enum class Step { kAsking, kComputing, kDone, kFailed };

  std::optional<engine::GenerateRequest> ask();
  std::optional<engine::GenerateRequest> compute();
  bool conclude();
  void pass_over(std::size_t tokens);
  void keep_piece(std::size_t summary_tokens);
  engine::GenerateRequest request(text::EncodedPrompt prompt) const;
  Result<text::EncodedPrompt> encode(std::vector<text::ChatMessage> messages,
                                     bool for_summary) const;
  Replaced replaced() const { return {task_.so_far_end, task_.so_far.text}; }

  const ChatEncoder& encoder_;
  SummaryBook& book_;
  const std::uint32_t max_context_;
  SummaryTask task_;
  Step step_ = Step::kAsking;
  const std::uint32_t section_;  // of the session, with the summary that is made
  const std::size_t begin_;      // turns that a summary stood for before
  bool asked_ = false;           // a summary is under way
  std::size_t piece_end_ = 0;    // of the one that is asked for
  std::uint32_t piece_tokens_ = 0;
  std::string text_;
  bool cut_short_ = false;
};

}  // namespace refrain::serve
