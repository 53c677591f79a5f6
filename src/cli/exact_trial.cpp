// Drawing of trials. Any thread.
#include "cli/exact_trial.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/check.h"
#include "base/hash.h"

namespace refrain::cli {
namespace {

constexpr std::size_t kMostTurns = 7;
constexpr std::uint32_t kBlockBorder = 16;
constexpr std::uint32_t kSplitBorder = 256;
constexpr std::uint32_t kLongReply = 40;
constexpr std::uint32_t kShortReply = 12;

std::uint32_t below(Rng& rng, std::uint32_t bound) {
  return static_cast<std::uint32_t>(rng.below(bound));
}

// Few trials are long, for the reference computes each of their turns from nothing.
std::uint32_t draw_budget(Rng& rng, std::uint32_t token_budget) {
  const std::uint32_t draw = below(rng, 16);
  if (draw == 0) return token_budget;
  return std::max(token_budget / (draw < 4 ? 3 : 8), 2U);
}

std::uint32_t draw_reply(Rng& rng) {
  switch (below(rng, 8)) {
    case 0:
      return 0;
    case 1:
      return 1 + below(rng, kLongReply);
    default:
      return 1 + below(rng, kShortReply);
  }
}

class Drawing {
 public:
  Drawing(Rng& rng, const TrialLimits& limits)
      : rng_(rng), limits_(limits), left_(draw_budget(rng, limits.token_budget)) {}

  std::vector<TrialTurn> turns() {
    turns_.push_back(begin());
    left_ -= std::min(left_, turns_.back().length());
    const std::size_t wanted = 2 + rng_.below(kMostTurns - 1);
    while (turns_.size() < wanted) turns_.push_back(next());
    return std::move(turns_);
  }

 private:
  // A turn without a parent that the budget and the context hold.
  TrialTurn begin() {
    // Mostly a part, so that something is left for turns that go on from it.
    const std::uint32_t share = rng_.below(4) == 0 ? left_ : left_ / 3;
    const std::uint32_t room = std::min(std::max(share, 2U), limits_.max_length);
    TrialTurn turn;
    turn.reply = std::min(draw_reply(rng_), room / 2);
    turn.fresh =
        random_tokens(rng_, border_length(rng_, room - turn.reply), limits_.vocabulary_size);
    return turn;
  }

  TrialTurn next() {
    const std::size_t parent = rng_.below(turns_.size());
    const std::uint32_t kind = below(rng_, 8);
    TrialTurn turn = kind == 0 ? begin() : kind < 3 ? again(parent) : continued(parent, kind < 6);
    if (turn.length() > left_) turn = again(parent);
    // The reference of a repetition is that of its parent.
    if (!turn.fresh.empty()) left_ -= turn.length();
    return turn;
  }

  TrialTurn again(std::size_t parent) const {
    return TrialTurn{.parent = parent,
                     .kept = turns_[parent].prompt_length(),
                     .fresh = {},
                     .reply = turns_[parent].reply};
  }

  // Behind the whole of the parent, or behind a part of it.
  TrialTurn continued(std::size_t parent, bool whole) {
    const std::uint32_t length = turns_[parent].length();
    TrialTurn turn{.parent = parent,
                   .kept = whole ? length : border_length(rng_, length),
                   .fresh = {},
                   .reply = draw_reply(rng_)};
    turn.kept = std::min(turn.kept, limits_.max_length - 1);
    const std::uint32_t room = limits_.max_length - turn.kept;
    const std::uint32_t most = below(rng_, 4) == 0 ? room : std::min(room, 24U);
    turn.fresh = random_tokens(rng_, border_length(rng_, most), limits_.vocabulary_size);
    turn.reply = std::min(turn.reply, limits_.max_length - turn.prompt_length());
    const std::uint32_t over = turn.length() - std::min(turn.length(), left_);
    turn.reply -= std::min(turn.reply, over);
    return turn;
  }

  Rng& rng_;
  const TrialLimits& limits_;
  std::uint32_t left_;
  std::vector<TrialTurn> turns_;
};

}  // namespace

std::uint32_t border_length(Rng& rng, std::uint32_t most) {
  std::uint32_t length = 1 + below(rng, most);
  const std::uint32_t kind = below(rng, 3);
  if (kind == 0 && most + 2 >= kSplitBorder) {
    length = kSplitBorder - 2 + below(rng, 5);
  } else if (kind < 2) {
    length = (length + kBlockBorder / 2) / kBlockBorder * kBlockBorder + below(rng, 3);
    length -= std::min(length, 1U);  // one below the border, on it, or one above
  }
  return std::clamp(length, 1U, most);
}

TokenList random_tokens(Rng& rng, std::size_t count, std::uint32_t vocabulary_size) {
  TokenList tokens(count);
  for (TokenId& token : tokens)
    token = TokenId{static_cast<std::int32_t>(rng.below(vocabulary_size))};
  return tokens;
}

TrialPlan make_trial(std::uint64_t seed, std::uint64_t number, const TrialLimits& limits) {
  CHECK(limits.vocabulary_size > 0 && limits.max_length >= 2, "a trial without room");
  const std::array<std::uint64_t, 2> parts = {seed, number};
  Rng rng(hash_bytes(std::as_bytes(std::span(parts))).low);
  TrialPlan plan;
  plan.number = number;
  plan.turns = Drawing(rng, limits).turns();
  plan.row_by_row = rng.below(4) == 0;
  plan.way = rng.below(3) == 0 ? TrialWay::kEngine : TrialWay::kLedger;
  plan.schedule_seed = rng.next();
  return plan;
}

}  // namespace refrain::cli
