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

Newest find_newest(SummaryBook& book, const Conversation& conversation) {
  Newest newest;
  for (std::size_t turn = conversation.turn_count(); turn-- > 1;) {
    if (std::optional<Conclusion> found = book.find(conversation.key(turn))) {
      newest.replaced = {turn, found->text};
      newest.conclusion = std::move(*found);
      break;
    }
    if (book.is_being_made(conversation.key(turn))) newest.newer_is_being_made = true;
  }
  return newest;
}

// The first turn that would stay if a summary were made now; `from` if none is due.
std::size_t due_end(const SummaryRule& rule, std::size_t turn_count, std::size_t from,
                    std::size_t prompt_tokens, bool* due) {
  const std::size_t done = turn_count - 1;  // the running one is not
  const bool split = rule.split_turns > 0 && done - from >= rule.split_turns;
  const bool too_long = rule.budget_tokens > 0 && prompt_tokens > rule.budget_tokens;
  *due = split || too_long;
  if (split) return done;
  if (too_long && done > from + rule.recent_turns) return done - rule.recent_turns;
  return from;
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

}  // namespace

std::string_view next_summary_text(NextSummary next) {
  switch (next) {
    case NextSummary::kNone:
      return "none";
    case NextSummary::kStarted:
      return "started";
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
  const auto encode = [&](std::vector<text::ChatMessage> messages) {
    text::RenderInput whole = input;
    whole.messages = std::move(messages);
    return encoder_.encode(std::move(whole));
  };
  Shortened out;
  const std::size_t turns = conversation->turn_count();
  if (turns == 0) {  // no message of a user: the template knows what to say
    ASSIGN_OR_RETURN(out.prompt, encode(conversation->messages()));
    return out;
  }
  Newest newest = find_newest(book_, *conversation);
  const Replaced& replaced = newest.replaced;
  ASSIGN_OR_RETURN(out.prompt, encode(conversation->shortened(replaced, replaced.end)));

  bool due = false;
  const std::size_t end = due_end(rule, turns, replaced.end, out.prompt.tokens.size(), &due);
  if (newest.newer_is_being_made) {
    out.report.next = NextSummary::kBeingMade;
  } else if (due && end == replaced.end) {
    out.report.next = NextSummary::kNothing;
  } else if (due) {
    out.report.next = NextSummary::kStarted;
    out.task = SummaryTask{.conversation = conversation,
                           .frame = input,
                           .owner = std::move(owner),
                           .summary_tokens = longest_summary(rule),
                           .so_far_end = replaced.end,
                           .so_far = newest.conclusion,
                           .end = end};
    out.task->frame.add_generation_prompt = true;
    out.task->frame.continue_final_message = false;
  }

  // What has no room is left out, oldest turns first, but never the running one.
  const std::size_t room = max_context_ - std::min(answer_tokens, max_context_ / 4);
  std::size_t kept = replaced.end;
  while (out.prompt.tokens.size() > room && kept + 1 < turns) {
    const std::size_t surplus = out.prompt.tokens.size() - room;
    kept = kept == replaced.end ? first_with_room(out.prompt, *conversation, replaced, surplus)
                                : kept + 1;
    ASSIGN_OR_RETURN(out.prompt, encode(conversation->shortened(replaced, kept)));
  }
  out.report.left_out_turns = static_cast<std::uint32_t>(kept - replaced.end);
  out.report.replaced_turns = static_cast<std::uint32_t>(replaced.end);
  out.report.replaced_tokens = newest.conclusion.replaced_tokens;
  out.report.summary_tokens = newest.conclusion.summary_tokens;
  out.report.section = newest.conclusion.section;
  out.report.text = replaced.text;
  return out;
}

void Summaries::begin(SummaryTask task) {
  if (!book_.begin(task.conversation->key(task.end))) return;
  summarizer_.post(std::make_unique<SummaryJob>(encoder_, book_, max_context_, std::move(task)));
}

}  // namespace refrain::serve
