// See mass_sum.h.
#include "model/mass_sum.h"

#include <algorithm>

#include "base/check.h"

namespace refrain::model {

Result<void> MassSum::begin(const BatchPlan& plan) {
  plan_ = &plan;
  rows_.clear();
  sums_.clear();
  if (plan.mass_rows.empty()) return {};
  const std::uint32_t longest = *std::max_element(plan.lengths.begin(), plan.lengths.end());
  stride_ = (std::size_t{longest} + 15) / 16 * 16;
  const std::size_t row_floats = stride_ * shape_.kv_head_count;
  if (!memory_.reserve(row_floats * plan.mass_rows.size() * sizeof(float))) {
    return Error{Code::kUnavailable, "not enough memory for the attention mass of a batch",
                 "ask for it on fewer rows at a time"};
  }
  CHECK(plan.first_mass_layer < shape_.layer_count, "a layer the model does not have");
  const std::uint32_t layers = shape_.layer_count - plan.first_mass_layer;
  rows_.assign(plan.tokens.size(), nullptr);
  weights_.assign(plan.tokens.size(), 1.0F);
  auto* at = reinterpret_cast<float*>(memory_.data());
  for (std::size_t i = 0; i < plan.mass_rows.size(); ++i) {
    rows_[plan.mass_rows[i]] = at;
    weights_[plan.mass_rows[i]] = plan.mass_weights[i];
    at += row_floats;
  }
  for (std::size_t s = 0; s < plan.sequences.size(); ++s) {
    const kernels::AttentionSequence& sequence = plan.sequences[s];
    const auto first = rows_.begin() + sequence.first_row;
    const auto asks = [](const float* row) { return row != nullptr; };
    if (std::none_of(first, first + sequence.row_count, asks)) continue;
    sums_.push_back({plan.sequence_ids[s], plan.lengths[s], {}});
    sums_.back().weights.assign(std::size_t{layers} * heads_of_sum() * plan.lengths[s], 0.0F);
  }
  return {};
}

void MassSum::add_layer(std::uint32_t layer) {
  std::size_t sum = 0;
  for (std::size_t s = 0; s < plan_->sequences.size(); ++s) {
    if (sum == sums_.size() || sums_[sum].sequence != plan_->sequence_ids[s]) continue;
    AttentionMass& mass = sums_[sum++];
    float* layer_sum = mass.weights.data() +
                       std::size_t{layer - plan_->first_mass_layer} * heads_of_sum() * mass.length;
    const kernels::AttentionSequence& sequence = plan_->sequences[s];
    for (std::uint32_t i = 0; i < sequence.row_count; ++i) {
      const std::uint32_t row = sequence.first_row + i;
      if (rows_[row] == nullptr) continue;
      const float weight = weights_[row];
      const auto keys = static_cast<std::size_t>(plan_->keys[row]) + 1;
      for (std::size_t head = 0; head < shape_.kv_head_count; ++head) {
        const float* from = rows_[row] + head * stride_;
        float* to = layer_sum + (heads_of_sum() == 1 ? 0 : head) * mass.length;
        if (plan_->mass_kind == MassKind::kHeadMax) {
          for (std::size_t key = 0; key < keys; ++key)
            to[key] = std::max(to[key], weight * from[key]);
        } else {
          for (std::size_t key = 0; key < keys; ++key) to[key] += weight * from[key];
        }
      }
    }
  }
}

}  // namespace refrain::model
