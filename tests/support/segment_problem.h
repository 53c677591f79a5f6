// A ledger full of texts and prompts to search in it, for the measurements of segment search
// (bench/ and regression/). The same on every machine. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/rng.h"
#include "support/ledger_fixture.h"

namespace refrain::test {

class SegmentProblem {
 public:
  static constexpr std::size_t kTextTokens = 4096;
  static constexpr std::size_t kSharedTokens = 512;  // all texts have them in the middle

  // `stored_tokens` in texts of random words; of every eight, one repeats one token and one a
  // phrase of seven.
  explicit SegmentProblem(std::size_t stored_tokens)
      : fixture_(kv::LedgerOptions{
            .block_count = static_cast<std::uint32_t>(stored_tokens / 16 + kTextTokens / 16)}) {
    shared_ = random_text(kSharedTokens);
    for (std::size_t stored = 0; stored + kTextTokens <= stored_tokens; stored += kTextTokens) {
      texts_.push_back(text(texts_.size()));
      fixture_.serve(texts_.back());
    }
  }

  kv::ReusePlan plan(const TokenList& prompt, kv::ReuseScope scope) const {
    return fixture_.ledger->plan(space_of("a"), prompt, scope);
  }

  struct Prompt {
    std::string name;
    TokenList tokens;
  };
  std::vector<Prompt> prompts(std::size_t count) {
    return {{"nothing stored", random_text(count)},
            {"passages of 400 moved", moved_passages(count, 400)},
            {"passages of 40, too short", moved_passages(count, 40)},
            {"shared by all texts", cycle(shared_, count)},
            {"one token repeated", TokenList(count, kOne)},
            {"seven tokens repeated", cycle(tokens_from(1, 7), count)},
            {"stored as it is", TokenList(cycle(texts_.front(), count))}};
  }

 private:
  static constexpr TokenId kOne{0};

  TokenList random_text(std::size_t count) {
    TokenList tokens;
    for (std::size_t i = 0; i < count; ++i)
      tokens.push_back(TokenId{static_cast<int>(rng_.below(50'000))});
    return tokens;
  }
  static TokenList cycle(const TokenList& unit, std::size_t count) {
    TokenList tokens;
    for (std::size_t i = 0; i < count; ++i) tokens.push_back(unit[i % unit.size()]);
    return tokens;
  }
  TokenList text(std::size_t number) {
    if (number % 8 == 6) return joined(random_text(20), TokenList(kTextTokens - 20, kOne));
    if (number % 8 == 7) return joined(random_text(20), cycle(tokens_from(1, 7), kTextTokens - 20));
    TokenList tokens = random_text(kTextTokens / 2);
    tokens = joined(tokens, shared_);
    return joined(tokens, random_text(kTextTokens - tokens.size()));
  }
  TokenList moved_passages(std::size_t count, std::size_t length) {
    TokenList tokens;
    while (tokens.size() + length + 5 <= count) {
      const std::size_t number = rng_.below(texts_.size());
      const TokenList& from = texts_[number % 8 < 6 ? number : 0];
      const auto begin = from.begin() + static_cast<std::ptrdiff_t>(rng_.below(1500));
      tokens.insert(tokens.end(), begin, begin + static_cast<std::ptrdiff_t>(length));
      tokens = joined(tokens, random_text(5));
    }
    return tokens;
  }

  LedgerFixture fixture_;
  Rng rng_{11};
  TokenList shared_;
  std::vector<TokenList> texts_;
};

}  // namespace refrain::test
