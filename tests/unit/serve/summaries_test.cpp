// Summaries (REQUIREMENTS B4, B6): what stands in for older turns, when, and what is asked of the
// engine for it. With a scripted engine, a tokenizer of bytes and a plain template.
#include "serve/summaries.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "support/byte_tokenizer.h"
#include "support/chats.h"

namespace refrain::serve {
namespace {

using engine::GenerateRequest;
using engine::TokenEvent;
using test::chat;
using test::turns;
using test::words;

constexpr std::string_view kTemplate =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

// Keeps what it is asked for until the test answers.
class ScriptedEngine final : public Submitter {
 public:
  struct Asked {
    GenerateRequest request;
    std::shared_ptr<engine::OutputStream> stream;
  };

  Result<RequestId> submit(GenerateRequest request, std::shared_ptr<engine::OutputStream> stream,
                           engine::WhenFull /*when_full*/) override {
    std::lock_guard lock(mutex_);
    if (full) return Error{Code::kQueueFull, "full"};
    asked_.push_back({std::move(request), std::move(stream)});
    changed_.notify_all();
    return RequestId{++last_};
  }
  void cancel(RequestId id) override {
    std::lock_guard lock(mutex_);
    cancelled.push_back(to_int(id));
  }
  double retry_after_s() const override { return 1; }

  // The next request; none within a second.
  std::optional<Asked> next() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(1), [this] { return !asked_.empty(); }))
      return std::nullopt;
    Asked first = std::move(asked_.front());
    asked_.pop_front();
    return first;
  }

  std::atomic<bool> full = false;
  std::vector<std::uint64_t> cancelled;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Asked> asked_;
  std::uint64_t last_ = 0;
};

void answer(const ScriptedEngine::Asked& asked, const std::string& text,
            engine::FinishReason reason = engine::FinishReason::kStop) {
  TokenEvent event;
  event.text = text;
  asked.stream->on_event(event);
  event = {};
  event.kind = TokenEvent::Kind::kChoiceFinished;
  event.finish_reason = reason;
  asked.stream->on_event(event);
  event.kind = TokenEvent::Kind::kFinished;
  asked.stream->on_event(event);
}

class SummariesTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kContext = 2000;

  SummariesTest()
      : template_(text::ChatTemplate::parse(kTemplate, {}).value()),
        encoder_(tokenizer_, &template_, kContext) {
    restart();
  }
  void restart() {
    summaries_ = std::make_unique<Summaries>(encoder_, engine_, metrics_, kContext);
  }

  Shortened shorten(const std::vector<text::ChatMessage>& messages, const SummaryRule& rule,
                    SummaryOwner owner = {}, std::uint32_t answer_tokens = 50) {
    Result<Shortened> result =
        summaries_->shorten({.messages = messages}, rule, std::move(owner), answer_tokens);
    EXPECT_TRUE(result.ok()) << result.error().message;
    return std::move(result).value();
  }
  std::string text_of(const TokenList& tokens) const { return tokenizer_.decode(tokens, true); }
  double counted(std::string_view result) const {
    return metrics_.value(metrics::Metric::kContextSummaries, result);
  }
  void wait_for(std::string_view result, double count) const {
    for (int i = 0; i < 1000 && counted(result) < count; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(counted(result), count);
  }
  // Answers "Piece 1." and so on until the prompt is computed ahead; gives what was asked.
  std::vector<std::string> answer_pieces() {
    std::vector<std::string> prompts;
    while (const auto asked = engine_.next()) {
      if (asked->request.max_tokens == 0) {
        answer(*asked, "");
        return prompts;
      }
      EXPECT_LE(asked->request.prompt.size() + asked->request.max_tokens, kContext);
      prompts.push_back(text_of(asked->request.prompt));
      answer(*asked, "Piece " + std::to_string(prompts.size()) + ".");
    }
    ADD_FAILURE() << "nothing was computed ahead";
    return prompts;
  }
  // Until the summary that was answered is in the book: its prompt is asked for.
  void expect_warmed(const std::string& has, const std::string& lacks) {
    const auto warm = engine_.next();
    ASSERT_TRUE(warm.has_value());
    EXPECT_EQ(warm->request.max_tokens, 0U);
    EXPECT_TRUE(warm->request.gives_way);
    EXPECT_NE(text_of(warm->request.prompt).find(has), std::string::npos);
    EXPECT_EQ(text_of(warm->request.prompt).find(lacks), std::string::npos);
    answer(*warm, "");
  }

  test::ByteTokenizer tokenizer_;
  text::ChatTemplate template_;
  ChatEncoder encoder_;
  ScriptedEngine engine_;
  metrics::Registry metrics_;
  std::unique_ptr<Summaries> summaries_;
};

// B6: the turn that passes the budget is answered whole; the next one finds the summary.
TEST_F(SummariesTest, AChatPastItsBudgetGoesOnWithItsSummary) {
  const SummaryRule rule{.on = true, .budget_tokens = 800, .recent_turns = 1};
  EXPECT_EQ(shorten(turns(3), rule).report.next, NextSummary::kNone);
  const Shortened whole = shorten(turns(4), rule, {.label = "x", .tenant = "t", .salt = {1, 2}});
  EXPECT_EQ(whole.report.next, NextSummary::kDue);
  EXPECT_EQ(whole.report.replaced_turns, 0U);
  EXPECT_EQ(whole.report.left_out_turns, 0U);
  ASSERT_TRUE(whole.task.has_value());
  summaries_->begin(*whole.task);

  const auto asked = engine_.next();
  ASSERT_TRUE(asked.has_value());
  EXPECT_EQ(asked->request.tenant, "t");
  EXPECT_EQ(asked->request.salt, (Hash128{1, 2}));
  EXPECT_TRUE(asked->request.gives_way);
  EXPECT_EQ(asked->request.max_tokens, 200U);
  // All in front of the request for it is the beginning of the prompt that was just computed.
  const std::string prompt = text_of(asked->request.prompt);
  const std::size_t request = prompt.find(std::string("<user>") + std::string(kSummaryRequest));
  ASSERT_NE(request, std::string::npos);
  EXPECT_EQ(text_of(whole.prompt.tokens).substr(0, request), prompt.substr(0, request));
  EXPECT_EQ(prompt.find('d', request + kSummaryRequest.size() + 30), std::string::npos);
  // A second request of the same chat does not ask again.
  const Shortened meanwhile =
      shorten(turns(4), rule, {.label = "x", .tenant = "t", .salt = {1, 2}});
  EXPECT_EQ(meanwhile.report.next, NextSummary::kBeingMade);
  EXPECT_FALSE(meanwhile.task.has_value());

  answer(*asked, " Three turns of letters. ");
  expect_warmed("Three turns of letters.<user>dddd", "aaaa");
  const SummaryOwner owner{.tenant = "t", .salt = {1, 2}};
  const Shortened next = shorten(turns(5), rule, owner);
  EXPECT_EQ(next.report.replaced_turns, 3U);
  EXPECT_EQ(next.report.section, 2U);
  EXPECT_EQ(next.report.text, "Three turns of letters.");
  EXPECT_NEAR(next.report.replaced_tokens, 3 * 217, 8);  // with the markers of six messages
  EXPECT_NEAR(next.report.summary_tokens, kSummaryRequest.size() + 23 + 17, 8);
  const std::string text = text_of(next.prompt.tokens);
  EXPECT_EQ(text.find("<system>Be brief.<user>" + std::string(kSummaryRequest)), 0U);
  EXPECT_EQ(text.find("aaaa"), std::string::npos);
  EXPECT_NE(text.find("eeee"), std::string::npos);
  wait_for("done", 1);
  // Others do not get it: another tenant, another cache space, other tools.
  EXPECT_EQ(shorten(turns(5), rule, {.tenant = "u", .salt = {1, 2}}).report.replaced_turns, 0U);
  EXPECT_EQ(shorten(turns(5), rule, {.tenant = "t"}).report.replaced_turns, 0U);
}

// B6: session splitting with carried-over conclusions.
TEST_F(SummariesTest, ASessionIsSplitAfterItsTurns) {
  const SummaryRule rule{.on = true, .recent_turns = 2, .split_turns = 3};
  EXPECT_EQ(shorten(turns(2), rule).report.next, NextSummary::kNone);
  const Shortened whole = shorten(turns(3), rule);
  ASSERT_TRUE(whole.task.has_value());
  EXPECT_EQ(whole.task->end, 3U);  // none stays as it is
  summaries_->begin(*whole.task);
  answer(engine_.next().value(), "First.");
  expect_warmed("First.<user>And now?", "cccc");
  EXPECT_EQ(shorten(turns(5), rule).report.next, NextSummary::kNone);
  const Shortened second = shorten(turns(6), rule);
  EXPECT_EQ(second.report.section, 2U);
  ASSERT_TRUE(second.task.has_value());
  summaries_->begin(*second.task);
  // What was concluded is carried over: the model sees it when it concludes again.
  const auto asked = engine_.next();
  ASSERT_TRUE(asked.has_value());
  EXPECT_NE(text_of(asked->request.prompt).find("First.<user>dddd"), std::string::npos);
  answer(*asked, "First and second.");
  expect_warmed("First and second.", "ffff");
  const Shortened third = shorten(turns(7), rule);
  EXPECT_EQ(third.report.section, 3U);
  EXPECT_EQ(third.report.replaced_turns, 6U);
  EXPECT_NEAR(third.report.replaced_tokens, 6 * 217, 12);
}

// A chat that no context holds goes on: turns that are not summarised yet are left out, and it is
// summarised in pieces.
TEST_F(SummariesTest, WhatHasNoRoomIsLeftOutAndSummarisedInPieces) {
  const SummaryRule rule{.on = true, .budget_tokens = 600, .recent_turns = 1};
  const Shortened first = shorten(turns(20), rule);
  EXPECT_LE(first.prompt.tokens.size(), kContext - 50);
  EXPECT_GT(first.report.left_out_turns, 0U);
  EXPECT_NE(text_of(first.prompt.tokens).find("And now?"), std::string::npos);
  ASSERT_TRUE(first.task.has_value());
  summaries_->begin(*first.task);
  EXPECT_EQ(answer_pieces().size(), 4U);
  const Shortened second = shorten(turns(20), rule);
  EXPECT_EQ(second.report.replaced_turns, 19U);
  EXPECT_EQ(second.report.text, "Piece 4.");
  EXPECT_EQ(second.report.section, 2U);
  EXPECT_EQ(second.report.left_out_turns, 0U);
}

TEST_F(SummariesTest, AFailureLeavesTheChatAsItIsAndIsTriedAgain) {
  const SummaryRule rule{.on = true, .budget_tokens = 400, .recent_turns = 0};
  const auto begun = [&] {
    const Shortened shortened = shorten(turns(3), rule);
    EXPECT_EQ(shortened.report.replaced_turns, 0U);
    EXPECT_TRUE(shortened.task.has_value());
    if (shortened.task.has_value()) summaries_->begin(*shortened.task);
  };
  engine_.full = true;
  begun();
  wait_for("failed", 1);
  engine_.full = false;
  begun();
  answer(engine_.next().value(), "   ");  // an empty summary would lose everything
  wait_for("failed", 2);
  begun();
  answer(engine_.next().value(), "Cut", engine::FinishReason::kDeadline);
  wait_for("failed", 3);
  begun();
  TokenEvent error;
  error.kind = TokenEvent::Kind::kError;
  error.error = Error{Code::kInternal, "it failed"};
  engine_.next().value().stream->on_event(error);
  wait_for("failed", 4);
  begun();
  answer(engine_.next().value(), "Whole sentence. Anoth", engine::FinishReason::kLength);
  expect_warmed("Whole sentence.<user>And now?", "Anoth");
  // Where the prompt cannot be computed ahead, the summary holds all the same.
  EXPECT_EQ(shorten(turns(3), rule).report.replaced_turns, 3U);
}

// What was generated is not lost with the prompt that was to be computed ahead.
TEST_F(SummariesTest, ASummaryHoldsWhereItsPromptCannotBeComputedAhead) {
  const SummaryRule rule{.on = true, .budget_tokens = 400, .recent_turns = 0};
  summaries_->begin(*shorten(turns(3), rule).task);
  const auto asked = engine_.next();
  ASSERT_TRUE(asked.has_value());
  engine_.full = true;
  answer(*asked, "Said.");
  wait_for("done", 1);
  EXPECT_EQ(shorten(turns(3), rule).report.text, "Said.");
}

// Defects that were found by trying: each made a chat worse than without the policy.
TEST_F(SummariesTest, ATurnThatFitsAloneIsAnsweredWithoutTheSummary) {
  const SummaryRule rule{.on = true, .budget_tokens = 1300, .recent_turns = 0};
  auto messages = turns(5);
  messages.back().content = words(300, 'z');
  summaries_->begin(*shorten(messages, rule).task);
  answer(engine_.next().value(), words(300, 's') + ".");
  expect_warmed("ssss", "aaaa");
  messages.back().content = words(1500, 'z');
  const Shortened alone = shorten(messages, rule);
  EXPECT_LT(alone.prompt.tokens.size(), kContext);
  EXPECT_EQ(alone.report.replaced_turns, 0U);
  EXPECT_EQ(alone.report.left_out_turns, 5U);
}

TEST_F(SummariesTest, ATurnThatIsTooLongToBeSummarisedIsPassedOver) {
  const SummaryRule rule{.on = true, .budget_tokens = 800, .recent_turns = 1};
  auto messages = turns(12);
  messages[3].content = words(1900, 'b');  // with the question it does not fit
  const Shortened first = shorten(messages, rule);
  summaries_->begin(first.task.value());
  const std::vector<std::string> prompts = answer_pieces();
  ASSERT_GE(prompts.size(), 2U);
  EXPECT_NE(prompts.front().find("aaaa"), std::string::npos);
  EXPECT_NE(prompts[1].find("too long to be summarised"), std::string::npos);
  EXPECT_EQ(shorten(messages, rule).report.replaced_turns, 11U);
}

TEST_F(SummariesTest, WhatHasNoRoomIsSummarisedWhateverTheBudget) {
  const SummaryRule rule{.on = true, .budget_tokens = 100'000, .recent_turns = 20};
  const Shortened first = shorten(turns(15), rule);
  EXPECT_GT(first.report.left_out_turns, 0U);
  EXPECT_EQ(first.report.next, NextSummary::kDue);
  summaries_->begin(first.task.value());
  answer(engine_.next().value(), "All of it.");
  for (auto more = engine_.next(); more.has_value(); more = engine_.next()) {
    answer(*more, "All of it.");
    if (more->request.max_tokens == 0) break;
  }
  EXPECT_EQ(shorten(turns(15), rule).report.left_out_turns, 0U);
}

TEST_F(SummariesTest, GoingBackInAChatBringsItsTurnsBack) {
  const SummaryRule rule{.on = true, .budget_tokens = 1200, .recent_turns = 2};
  summaries_->begin(shorten(turns(6), rule).task.value());
  answer(engine_.next().value(), "Four turns.");
  expect_warmed("Four turns.", "aaaa");
  EXPECT_EQ(shorten(turns(6), rule).report.replaced_turns, 4U);
  EXPECT_EQ(shorten(turns(5), rule).report.replaced_turns, 0U);  // it is within the budget again
  SummaryRule wide = rule;
  wide.budget_tokens = 5000;
  EXPECT_EQ(shorten(turns(6), wide).report.replaced_turns, 0U);
  wide = rule;
  wide.recent_turns = 3;  // one more than the summary left
  EXPECT_EQ(shorten(turns(6), wide).report.replaced_turns, 0U);
}

TEST_F(SummariesTest, AHistoryOfManyTimesTheContextIsAnswered) {
  const SummaryRule rule{.on = true, .budget_tokens = 800, .recent_turns = 1};
  auto messages = turns(200);
  const Shortened first = shorten(messages, rule);
  EXPECT_LT(first.prompt.tokens.size(), kContext);
  EXPECT_EQ(first.report.next, NextSummary::kDue);
  EXPECT_GT(first.report.left_out_turns, 180U);
}

TEST_F(SummariesTest, ThoughtsAndCallsAreNoSummary) {
  const SummaryRule rule{.on = true, .budget_tokens = 400, .recent_turns = 0};
  summaries_->begin(*shorten(turns(3), rule).task);
  answer(engine_.next().value(), "<think>Hm, what was it", engine::FinishReason::kLength);
  wait_for("failed", 1);
  summaries_->begin(*shorten(turns(3), rule).task);
  answer(engine_.next().value(), R"(<tool_call>{"name": "x"}</tool_call>)");
  wait_for("failed", 2);
  summaries_->begin(*shorten(turns(3), rule).task);
  answer(engine_.next().value(), "<think>Hm.</think>\n\nIt was this.");
  expect_warmed("It was this.<user>And now?", "Hm");
}

TEST_F(SummariesTest, NothingIsDueWhereAllTurnsAreRecent) {
  const SummaryRule rule{.on = true, .budget_tokens = 100, .recent_turns = 3};
  const Shortened shortened = shorten(turns(3), rule);
  EXPECT_EQ(shortened.report.next, NextSummary::kNothing);
  EXPECT_FALSE(shortened.task.has_value());
  const Shortened none = shorten(chat({{"system", "S"}}), rule);
  EXPECT_EQ(text_of(none.prompt.tokens), "<system>S<assistant>");
}

TEST_F(SummariesTest, StoppingCancelsWhatRunsAndRefusesMore) {
  const SummaryRule rule{.on = true, .budget_tokens = 400, .recent_turns = 0};
  summaries_->begin(*shorten(turns(3), rule).task);
  ASSERT_TRUE(engine_.next().has_value());
  summaries_->stop();
  EXPECT_EQ(engine_.cancelled.size(), 1U);
  const Shortened later = shorten(turns(3), rule);
  ASSERT_TRUE(later.task.has_value());  // it failed, so another may be begun
  summaries_->begin(*later.task);
  EXPECT_EQ(counted("refused"), 1);
}

}  // namespace
}  // namespace refrain::serve
