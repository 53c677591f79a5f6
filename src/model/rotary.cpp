// See rotary.h.
#include "model/rotary.h"

#include <algorithm>
#include <cmath>

#include "ggml.h"
#include "model/model.h"
#include "model/weights.h"

namespace refrain::model {
namespace {

constexpr double kTwoPi = 6.283185307179586;

// The pair that turns `turns` times over the original context.
double pair_with_turns(const RopeSettings& settings, float base, float turns) {
  return settings.dimensions * std::log(settings.original_context / (turns * kTwoPi)) /
         (2.0 * std::log(base));
}

const float* factors_of(const Model& model) {
  const ggml_tensor* factors = model.weights().rope_factors();
  return factors == nullptr ? nullptr : static_cast<const float*>(factors->data);
}

}  // namespace

RotaryFrequencies::RotaryFrequencies(const RopeSettings& settings, float base, bool scaled,
                                     const float* factors) {
  const std::uint32_t pairs = settings.dimensions / 2;
  const bool yarn = scaled && settings.scaling == RopeScaling::kYarn;
  const bool linear = scaled && settings.scaling == RopeScaling::kLinear;
  double low = 0.0, high = 0.0;
  if (yarn) {
    low = std::max(0.0, std::floor(pair_with_turns(settings, base, settings.beta_fast)));
    high = std::min(settings.dimensions - 1.0,
                    std::ceil(pair_with_turns(settings, base, settings.beta_slow)));
    magnitude_ = 1.0 + 0.1 * std::log(settings.factor);
  }
  if (scaled) magnitude_ *= settings.attention_factor;
  for (std::uint32_t i = 0; i < pairs; ++i) {
    double frequency = std::pow(static_cast<double>(base), -2.0 * i / settings.dimensions);
    if (scaled && factors != nullptr) frequency /= factors[i];
    if (linear) frequency /= settings.factor;
    if (yarn) {
      // Fast pairs keep their speed, slow ones are stretched, with a ramp between.
      const double ramp = std::clamp((i - low) / std::max(0.001, high - low), 0.0, 1.0);
      frequency *= (1.0 - ramp) + ramp / settings.factor;
    }
    per_position_.push_back(frequency);
  }
}

void RotaryFrequencies::angles(Position position, float* cosine, float* sine) const {
  for (std::size_t i = 0; i < per_position_.size(); ++i) {
    const double angle = per_position_[i] * position;
    cosine[i] = static_cast<float>(std::cos(angle) * magnitude_);
    sine[i] = static_cast<float>(std::sin(angle) * magnitude_);
  }
}

void RotaryFrequencies::turn(Position distance, float* cosine, float* sine) const {
  for (std::size_t i = 0; i < per_position_.size(); ++i) {
    const double angle = per_position_[i] * distance;
    cosine[i] = static_cast<float>(std::cos(angle));
    sine[i] = static_cast<float>(std::sin(angle));
  }
}

// Gemma 3 stretches the positions of its global layers only.
ModelRotary::ModelRotary(const Model& model)
    : global_(model.shape().rope, model.shape().rope.base, true, factors_of(model)),
      local_(model.shape().rope, model.shape().rope.base_local, false, nullptr) {}

}  // namespace refrain::model
