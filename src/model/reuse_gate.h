// ReuseGate: how far the answer of a prompt with moved rows is expected to be from that of a cold
// run, for one model and KV format. A pure function of what one look at the prompt shows and of a
// calibration (`refrain calibrate`), which has compared both on other prompts. Any thread.
//
//   change     whether the moved text was edited (most of what stood before it still does) or
//   passages
//              were recombined: the same exposure does ten times less harm in edited text
//   exposure   share of the question's attention that goes to rows left as they were moved, each
//              weighted with how far its run is off:  0 nothing is left .. about 1
//   estimate   mean KL in nats over the first rows of the answer = slope x exposure
//   changed    how likely a token chosen greedily is not that of a cold run: its lead over the next
//   token      one would be another one there, normally distributed around what is seen, with a
//              variance of margin_variance x estimate:  P = 1/2 erfc(lead / sqrt(2 variance))
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "model/repair_choice.h"

namespace refrain::model {

// An estimate speaks of so many tokens at the beginning of an answer.
inline constexpr std::uint32_t kEstimatedTokens = 24;
inline constexpr double kTieNats = 0.01;
inline constexpr double kLargestChance = 0.5;  // of another token, where two are equal

// What a look at a prompt shows.
struct Look {
  std::vector<float> attention;  // of the question, per key
  std::vector<float> residuals;  // per run (model/probe.h)
};

// `repaired`: rows of the runs that are computed again, ascending.
double exposure(std::span<const MovedRun> runs, const Look& look,
                std::span<const Position> repaired);

// What stands in front of the moved text now, against what it was computed behind.
enum class ContextChange : std::uint8_t { kEdited, kRecombined };
inline constexpr ContextChange kContextChanges[] = {ContextChange::kEdited,
                                                    ContextChange::kRecombined};
std::string_view name_of(ContextChange change);  // "edited", "recombined"

class ReuseGate {
 public:
  // Nats per exposure of each change and rung; none: was not measured, and is never chosen.
  using OfRungs = std::array<std::optional<double>, std::size(kRepairRungs)>;
  using Slopes = std::array<OfRungs, std::size(kContextChanges)>;
  static std::optional<double>& slope_of(Slopes& slopes, ContextChange change, RepairRung rung) {
    return slopes[static_cast<std::size_t>(change)][static_cast<std::size_t>(rung)];
  }
  static const std::optional<double>& slope_of(const Slopes& slopes, ContextChange change,
                                               RepairRung rung) {
    return slopes[static_cast<std::size_t>(change)][static_cast<std::size_t>(rung)];
  }

  // `margin_variance`: squared logits per nat.
  explicit ReuseGate(const Slopes& slopes, double margin_variance = 0.0)
      : slopes_(slopes), margin_variance_(margin_variance) {}

  // Whether any rung was measured for such a change: else a look is wasted.
  bool measures(ContextChange change) const;
  std::optional<double> estimate(ContextChange change, RepairRung rung, double exposed) const;
  // 0 .. 1/2, of a token that leads by `margin` logits where `estimate` nats are expected.
  double changed_token(double margin, double estimate) const;
  // Whether a token may be a near tie at all: not where more than kTieNats are expected, for
  // margins are off by so much there that most answers would have one.
  static bool watches(double estimate, double limit) {
    return estimate <= kTieNats && limit < kLargestChance;
  }
  // Whether it is watched, and changed_token() is above `limit`.
  bool is_near_tie(double margin, double estimate, double limit) const;

 private:
  Slopes slopes_;
  double margin_variance_;
};

}  // namespace refrain::model
