// Parts of bench and eval: perplexity windows, percentiles, event streams, addresses, workloads.
#include <gtest/gtest.h>

#include <cmath>

#include "cli/http_client.h"
#include "cli/perplexity.h"
#include "cli/serve_bench.h"
#include "cli/sse.h"
#include "cli/workload.h"

namespace refrain::cli {
namespace {

TEST(ScoreWindows, ScoreEveryTokenOnceWhateverTheStride) {
  for (const std::size_t count : {2U, 7U, 10U, 64U, 65U}) {
    for (const std::size_t stride : {1U, 3U, 4U, 8U}) {
      std::vector<int> scored(count, 0);
      for (const ScoreWindow& window : score_windows(count, 8, stride, /*has_bos=*/true)) {
        EXPECT_LE(window.end - window.begin, 8U);
        EXPECT_LE(window.begin, window.scored_begin);
        for (std::size_t i = window.scored_begin; i < window.end; ++i) ++scored[i];
      }
      EXPECT_EQ(scored, std::vector<int>(count, 1)) << count << " tokens, stride " << stride;
    }
  }
}

TEST(ScoreWindows, LeaveOutTheFirstTokenOfAWindowWithoutBos) {
  const auto windows = score_windows(20, 8, 8, /*has_bos=*/false);
  ASSERT_EQ(windows.size(), 3U);
  EXPECT_EQ(windows[0].scored_begin, 1U);
  EXPECT_EQ(windows[1].scored_begin, 9U);
  EXPECT_EQ(windows[2].end, 20U);
  EXPECT_TRUE(score_windows(1, 8, 8, false).empty());
  EXPECT_TRUE(score_windows(0, 8, 8, true).empty());
}

TEST(NegativeLogLikelihood, IsThatOfASoftmaxAndSurvivesLargeLogits) {
  const std::vector<float> even(4, 3.0F);
  EXPECT_NEAR(negative_log_likelihood(even, TokenId{2}), std::log(4.0), 1e-12);
  const std::vector<float> large = {10000.0F, 10001.0F};
  EXPECT_NEAR(negative_log_likelihood(large, TokenId{1}), std::log1p(std::exp(-1.0)), 1e-9);
}

TEST(Percentile, IsTheNearestRank) {
  EXPECT_EQ(percentile({}, 0.5), 0);
  EXPECT_EQ(percentile({4, 1, 3, 2}, 0.5), 2);
  EXPECT_EQ(percentile({4, 1, 3, 2}, 0.99), 4);
  EXPECT_EQ(percentile({7}, 0.5), 7);
}

TEST(SseParser, GivesTheSameEventsHoweverTheBytesAreCut) {
  const std::string stream =
      ": comment\r\n\r\ndata: {\"a\":1}\r\n\r\nevent: x\ndata:two\ndata: lines\n\ndata: [DONE]\n\n";
  const std::vector<std::string> expected = {"{\"a\":1}", "two\nlines", "[DONE]"};
  for (std::size_t piece = 1; piece <= stream.size(); ++piece) {
    SseParser parser;
    std::vector<std::string> events;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      const auto pushed = parser.push(std::string_view(stream).substr(at, piece),
                                      [&](std::string_view data) { events.emplace_back(data); });
      ASSERT_TRUE(pushed.ok());
    }
    EXPECT_EQ(events, expected) << "pieces of " << piece;
  }
}

TEST(SseParser, RefusesAnEndlessEvent) {
  SseParser parser;
  const std::string piece(1U << 20U, 'x');
  bool refused = false;
  for (int i = 0; i < 32 && !refused; ++i)
    refused = !parser.push(piece, [](std::string_view) {}).ok();
  EXPECT_TRUE(refused);
}

TEST(Url, IsHostPortAndPathWithoutV1) {
  const auto url = parse_url("http://127.0.0.1:8080/v1/");
  ASSERT_TRUE(url.ok());
  EXPECT_EQ(url->host, "127.0.0.1");
  EXPECT_EQ(url->port, "8080");
  EXPECT_EQ(url->path, "");
  EXPECT_EQ(parse_url("http://[::1]:9/api")->host, "::1");
  EXPECT_EQ(parse_url("http://[::1]:9/api")->path, "/api");
  EXPECT_EQ(parse_url("http://example")->port, "80");
  for (const char* bad : {"https://x", "x:80", "http://", "http://:80", "http://h:p", ""}) {
    EXPECT_FALSE(parse_url(bad).ok()) << bad;
  }
}

TEST(Workload, IsTheSameForTheSameSeedAndDiffersBetweenSessions) {
  for (const std::string kind : {"chat", "rag", "agent", "batch", "noisy"}) {
    Session one(kind, 5, 3), again(kind, 5, 3), other(kind, 5, 4);
    ASSERT_FALSE(one.messages().empty()) << kind;
    EXPECT_EQ(one.messages().back().content, again.messages().back().content) << kind;
    EXPECT_NE(one.messages().back().content, other.messages().back().content) << kind;
    EXPECT_EQ(one.messages().back().role, "user") << kind;
  }
}

TEST(Workload, SharesItsBeginningBetweenSessionsExceptWhenNoisy) {
  for (const std::string kind : {"chat", "rag", "agent"}) {
    EXPECT_EQ(Session(kind, 5, 1).messages()[0].content, Session(kind, 5, 2).messages()[0].content)
        << kind;
  }
  const std::string a = Session("noisy", 5, 1).messages()[0].content,
                    b = Session("noisy", 5, 2).messages()[0].content;
  EXPECT_NE(a, b);
  EXPECT_EQ(a.substr(a.find('\n')), b.substr(b.find('\n')));
}

TEST(Workload, ChatGrowsByTwoMessagesATurnAndEndsAfterFour) {
  Session session("chat", 1, 0);
  for (int turn = 1; turn < 4; ++turn) {
    const std::size_t before = session.messages().size();
    ASSERT_TRUE(session.answered("fine"));
    EXPECT_EQ(session.messages().size(), before + 2);
  }
  EXPECT_FALSE(session.answered("fine"));
}

}  // namespace
}  // namespace refrain::cli
