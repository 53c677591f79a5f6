// RotaryFrequencies: how fast each pair of a head turns per position, for a model's global layers
// (with their scaling: linear, YaRN (Peng et al. 2023), Llama-3 factors) and its local ones. Fixed
// at load, since a cached key keeps the angles it was stored with. Immutable; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "model/shape.h"

namespace refrain::model {

class Model;

class RotaryFrequencies {
 public:
  // base: of these layers. scaled: with the settings' scaling and factors [dimensions / 2] (null:
  // none).
  RotaryFrequencies(const RopeSettings& settings, float base, bool scaled, const float* factors);

  std::uint32_t dimensions() const { return static_cast<std::uint32_t>(per_position_.size()) * 2; }
  // cosine, sine: [dimensions / 2] each.
  void angles(Position position, float* cosine, float* sine) const;
  // Of a stored key that moves by `distance` positions, with its magnitude as it is.
  void turn(Position distance, float* cosine, float* sine) const;

 private:
  std::vector<double> per_position_;  // radians
  double magnitude_ = 1.0;
};

// The frequencies of all layers of a model.
class ModelRotary {
 public:
  explicit ModelRotary(const Model& model);

  const RotaryFrequencies& global() const { return global_; }
  const RotaryFrequencies& local() const { return local_; }

 private:
  RotaryFrequencies global_, local_;
};

}  // namespace refrain::model
