// See summaries.h.
#include "serve/summaries.h"

#include <algorithm>
#include <span>

#include "base/str.h"

namespace refrain::serve {
namespace {

// A summary takes a quarter of the budget at most: the rest is for turns.
constexpr std::uint32_t kLeastSummaryTokens = 32;
constexpr std::uint32_t kMostSummaryTokens = 512;
constexpr std::uint32_t kRequestTokens = 64;  // about what the question for it takes

std::uint32_t longest_summary(const SummaryRule& rule) {
  const std::uint32_t budget = rule.budget_tokens == 0 ? kMostSummaryTokens : rule.budget_tokens;
  return std::clamp(budget / 4, kLeastSummaryTokens, kMostSummaryTokens);
}

Hash128 seed_of(const text::RenderInput& input, const SummaryOwner& owner) {
  Hash128 seed = owner.salt;
  for (const std::string* text : {&owner.tenant, &input.tools_json, &input.extra_json}) {
    const std::string link = str_cat(text->size(), ":", *text);
    seed = hash_chain(seed, std::as_bytes(std::span(link)));
  }
  return seed;
}

// The newest summary of a conversation: what it replaces, and what is known of it.
struct Newest {
  Replaced replaced;
  Conclusion conclusion;
  bool newer_is_being_made = false;
};

Newest find_newest(SummaryBook& book, const Conversation& conversation, std::size_t most_turns) {
  Newest newest;
  for (std::size_t turn = conversation.turn_count(); turn-- > 1;) {
    if (book.is_being_made(conversation.key(turn))) newest.newer_is_being_made = true;
    if (turn > most_turns) continue;
    if (std::optional<Conclusion> found = book.find(conversation.key(turn))) {
      newest.replaced = {turn, found->text};
      newest.conclusion = std::move(*found);
      break;
    }
  }
  return newest;
}

// How many turns from `replaced.end` on have to go so that `surplus` tokens do; never the running
// one.
std::size_t first_with_room(const text::EncodedPrompt& prompt, const Conversation& conversation,
                            const Replaced& replaced, std::size_t surplus) {
  const std::size_t begin = tokens_before(prompt, conversation, replaced, replaced.end);
  std::size_t kept = replaced.end;
  while (kept + 1 < conversation.turn_count() &&
         tokens_before(prompt, conversation, replaced, kept) - begin < surplus)
    ++kept;
  return kept;
}

// One conversation on its way to a prompt.
class Shortening {
 public:
  Shortening(const ChatEncoder& encoder, const text::RenderInput& frame,
             const Conversation& conversation, std::size_t room)
      : encoder_(encoder), frame_(frame), conversation_(conversation), room_(room) {}

  // Head, summary and the turns behind it; what has no room is left out, oldest turns first, but
  // never the running one.
  Result<void> try_with(Newest newest) {
    newest_ = std::move(newest);
    const Replaced& replaced = newest_.replaced;
    const std::size_t other_bytes = conversation_.head_bytes() + replaced.text.size();
    const std::size_t most_bytes = encoder_.most_text_bytes();
    kept_ = std::max(replaced.end,
                     conversation_.begin_within(most_bytes - std::min(most_bytes, other_bytes)));
    RETURN_IF_ERROR(encode());
    whole_ = prompt_;
    if (kept_ == replaced.end && tokens() > room_) {
      kept_ = first_with_room(prompt_, conversation_, replaced, tokens() - room_);
      RETURN_IF_ERROR(encode());
    }
    while (prompt_.tokens.size() > room_ && kept_ + 1 < conversation_.turn_count()) {
      ++kept_;
      RETURN_IF_ERROR(encode());
    }
    return {};
  }

  const Newest& newest() const { return newest_; }
  text::EncodedPrompt& prompt() { return prompt_; }
  std::size_t tokens() const { return whole_.tokens.size(); }  // before any turn was left out
  std::size_t kept() const { return kept_; }                   // the first turn in it
  bool leaves_out() const { return kept_ > newest_.replaced.end; }
  // Tokens of the turns between the summary and `end`.
  std::size_t tokens_up_to(std::size_t end) const {
    const Replaced& replaced = newest_.replaced;
    return tokens_before(whole_, conversation_, replaced, end) -
           tokens_before(whole_, conversation_, replaced, replaced.end);
  }

 private:
  Result<void> encode() {
    text::RenderInput input = frame_;
    input.messages = conversation_.shortened(newest_.replaced, kept_);
    ASSIGN_OR_RETURN(prompt_, encoder_.encode(std::move(input)));
    return {};
  }

  const ChatEncoder& encoder_;
  const text::RenderInput& frame_;
  const Conversation& conversation_;
  const std::size_t room_;
  Newest newest_;
  text::EncodedPrompt prompt_, whole_;
  std::size_t kept_ = 0;
};

// A summary that is due now.
struct Due {
  std::size_t end = 0;  // the first turn that stays
  bool pays = true;     // it makes the prompt shorter
};

std::optional<Due> find_due(const SummaryRule& rule, const Shortening& shortening,
                            std::size_t done) {
  const std::size_t from = shortening.newest().replaced.end;
  if (rule.split_turns > 0 && done - from >= rule.split_turns) return Due{done};
  const std::size_t behind_recent = done - std::min<std::size_t>(done, rule.recent_turns);
  // Half of what still had room goes as well, or the next turn would be where this one is.
  if (shortening.leaves_out())
    return Due{std::max(shortening.kept() + (done - shortening.kept()) / 2, behind_recent)};
  if (rule.budget_tokens == 0 || shortening.tokens() <= rule.budget_tokens) return std::nullopt;
  const bool pays = behind_recent > from && shortening.tokens_up_to(behind_recent) >=
                                                longest_summary(rule) + kRequestTokens;
  return Due{behind_recent, pays};
}

// Takes the summary that suits rule and room, if there is one. True if a newer one is being made.
Result<bool> choose_summary(SummaryBook& book, const SummaryRule& rule,
                            const Conversation& conversation, Shortening& shortening) {
  const std::size_t done = conversation.turn_count() - 1;
  const std::size_t recent = rule.split_turns > 0 ? 0 : rule.recent_turns;
  Newest newest = find_newest(book, conversation, done - std::min(done, recent));
  const bool newer_is_being_made = newest.newer_is_being_made;
  const std::size_t spared = newest.conclusion.replaced_tokens;
  const std::size_t instead = newest.conclusion.summary_tokens;
  RETURN_IF_ERROR(shortening.try_with(std::move(newest)));
  // Without it the conversation is within the budget: a client went back in it, or allows more.
  const bool is_needed = rule.split_turns > 0 || shortening.leaves_out() ||
                         shortening.tokens() + spared > rule.budget_tokens + instead;
  if (shortening.newest().replaced.end > 0 && !is_needed) RETURN_IF_ERROR(shortening.try_with({}));
  // Where there is no room, a summary of recent turns is better than none of them.
  if (shortening.leaves_out()) {
    Newest later = find_newest(book, conversation, done);
    if (later.replaced.end > shortening.newest().replaced.end)
      RETURN_IF_ERROR(shortening.try_with(std::move(later)));
  }
  return newer_is_being_made;
}

}  // namespace

std::string_view next_summary_text(NextSummary next) {
  switch (next) {
    case NextSummary::kNone:
      return "none";
    case NextSummary::kDue:
      return "due";
    case NextSummary::kBeingMade:
      return "being_made";
    case NextSummary::kNothing:
      return "nothing_to_summarize";
  }
  return "none";
}

Summaries::Summaries(const ChatEncoder& encoder, Submitter& engine, metrics::Registry& metrics,
                     std::uint32_t max_context)
    : encoder_(encoder), max_context_(max_context), summarizer_(engine, metrics) {}

Result<Shortened> Summaries::shorten(text::RenderInput input, const SummaryRule& rule,
                                     SummaryOwner owner, std::uint32_t answer_tokens) {
  const auto conversation =
      std::make_shared<const Conversation>(std::move(input.messages), seed_of(input, owner));
  input.messages.clear();
  Shortened out;
  const std::size_t turns = conversation->turn_count();
  if (turns == 0) {  // no message of a user: the template knows what to say
    text::RenderInput whole = input;
    whole.messages = conversation->messages();
    ASSIGN_OR_RETURN(out.prompt, encoder_.encode(std::move(whole)));
    return out;
  }
  const std::size_t done = turns - 1;  // the running one is not
  Shortening shortening(encoder_, input, *conversation,
                        max_context_ - std::min(answer_tokens, max_context_ / 4));
  ASSIGN_OR_RETURN(const bool newer_is_being_made,
                   choose_summary(book_, rule, *conversation, shortening));
  const Replaced& replaced = shortening.newest().replaced;
  if (const std::optional<Due> due = find_due(rule, shortening, done)) {
    out.report.next = newer_is_being_made ? NextSummary::kBeingMade
                      : due->pays         ? NextSummary::kDue
                                          : NextSummary::kNothing;
    if (out.report.next == NextSummary::kDue)
      out.task = SummaryTask{.conversation = conversation,
                             .frame = input,
                             .owner = std::move(owner),
                             .summary_tokens = longest_summary(rule),
                             .so_far_end = replaced.end,
                             .so_far = shortening.newest().conclusion,
                             .end = due->end};
  }
  out.prompt = std::move(shortening.prompt());
  out.report.left_out_turns = static_cast<std::uint32_t>(shortening.kept() - replaced.end);
  if (replaced.end > 0 && out.prompt.tokens.size() >= max_context_) {
    // Head and running turn alone, as if there were no summary.
    input.messages = conversation->shortened({}, done);
    ASSIGN_OR_RETURN(out.prompt, encoder_.encode(std::move(input)));
    out.report.left_out_turns = static_cast<std::uint32_t>(done);
    return out;
  }
  const Conclusion& used = shortening.newest().conclusion;
  out.report.replaced_turns = static_cast<std::uint32_t>(replaced.end);
  out.report.replaced_tokens = used.replaced_tokens;
  out.report.summary_tokens = used.summary_tokens;
  out.report.section = used.section;
  out.report.text = replaced.text;
  return out;
}

void Summaries::begin(SummaryTask task) {
  if (!book_.begin(task.conversation->key(task.end))) return;
  summarizer_.post(std::make_unique<SummaryJob>(encoder_, book_, max_context_, std::move(task)));
}

}  // namespace refrain::serve
