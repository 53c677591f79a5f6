#include "engine/isolation.h"

#include <algorithm>

namespace refrain::engine {

std::string_view alarm_name(Alarm alarm) {
  switch (alarm) {
    case Alarm::kNone:
      break;
    case Alarm::kKv:
      return "kv";
    case Alarm::kTpot:
      return "tpot";
  }
  return "";
}

void FollowingMean::add(double value) {
  constexpr std::uint64_t kPlain = 64;
  ++count_;
  value_ += (value - value_) / static_cast<double>(std::min(count_, kPlain));
}

std::uint64_t Isolation::expected_tokens(const GenerateRequest& request) const {
  const double usual =
      answer_tokens_.count() >= kMinEnded ? answer_tokens_.value() : double{kFirstAnswerTokens};
  const double answer = std::min(static_cast<double>(request.max_tokens), usual);
  const std::uint32_t choices = request.task == Task::kEmbed ? 0 : request.choice_count;
  return request.prompt.size() + static_cast<std::uint64_t>(answer * choices);
}

bool Isolation::is_long(const GenerateRequest& request) const {
  return options_.long_tokens > 0 && expected_tokens(request) > options_.long_tokens;
}

std::uint32_t Isolation::long_part(std::uint32_t all) const {
  const std::uint64_t part = std::uint64_t{all} * options_.pool_percent / 100;
  return std::max<std::uint32_t>(1, static_cast<std::uint32_t>(part));
}

void Isolation::note_ended(std::uint64_t peak_tokens, double answer_tokens, double tpot_ms) {
  peak_tokens_.add(static_cast<double>(peak_tokens));
  answer_tokens_.add(answer_tokens);
  if (tpot_ms > 0) tpot_ms_.add(tpot_ms);
}

Alarm Isolation::judge(const RunningLoad& load, std::uint64_t all_kv_tokens) const {
  const double factor = options_.alarm_factor;
  if (factor <= 0) return Alarm::kNone;
  const auto kv_tokens = static_cast<double>(load.kv_tokens);
  if (peak_tokens_.count() >= kMinEnded && load.kv_tokens > options_.long_tokens &&
      kv_tokens > factor * peak_tokens_.value())
    return Alarm::kKv;
  // Whoever waits for another's context is not to blame.
  const bool holds_most = 2 * load.kv_tokens > all_kv_tokens && load.kv_tokens < all_kv_tokens;
  if (tpot_ms_.count() >= kMinEnded && holds_most && load.tpot_ms > factor * tpot_ms_.value())
    return Alarm::kTpot;
  return Alarm::kNone;
}

}  // namespace refrain::engine
