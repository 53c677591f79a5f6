#include "engine/sampling.h"

#include <cmath>
#include <string>

#include "base/str.h"

namespace refrain::engine {
namespace {

Error out_of_range(std::string_view field, double value, std::string_view range) {
  return Error{Code::kInvalidArgument, str_cat("`", field, "` is ", value, ", allowed is ", range),
               str_cat("send a `", field, "` in the range ", range), std::string(field)};
}

// Written so that NaN fails.
bool within(double value, double low, double high) {
  return value >= low && value <= high;
}

}  // namespace

Result<void> SamplingParams::validate(std::size_t vocabulary_size) const {
  if (!within(temperature, 0, 100)) return out_of_range("temperature", temperature, "0 to 100");
  if (top_k < -1) return out_of_range("top_k", top_k, "-1, 0 (both off) or more");
  if (!(top_p > 0 && top_p <= 1)) return out_of_range("top_p", top_p, "above 0 up to 1");
  if (!(min_p >= 0 && min_p < 1)) return out_of_range("min_p", min_p, "0 to below 1");
  if (!(repetition_penalty > 0 && std::isfinite(repetition_penalty)))
    return out_of_range("repetition_penalty", repetition_penalty, "above 0");
  if (!within(presence_penalty, -2, 2))
    return out_of_range("presence_penalty", presence_penalty, "-2 to 2");
  if (!within(frequency_penalty, -2, 2))
    return out_of_range("frequency_penalty", frequency_penalty, "-2 to 2");
  if (!within(top_logprobs, -1, 20)) return out_of_range("top_logprobs", top_logprobs, "0 to 20");
  for (const LogitBias& entry : logit_bias) {
    const auto token = to_int(entry.token);
    if (token < 0 || static_cast<std::size_t>(token) >= vocabulary_size)
      return Error{Code::kInvalidArgument,
                   str_cat("`logit_bias` names token ", token, ", the vocabulary has ",
                           vocabulary_size, " tokens"),
                   "use token ids of this model; /tokenize gives them", "logit_bias"};
    if (!within(entry.bias, -100, 100))
      return out_of_range("logit_bias", entry.bias, "-100 to 100");
  }
  return {};
}

}  // namespace refrain::engine
