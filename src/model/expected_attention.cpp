// See expected_attention.h.
#include "model/expected_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"

namespace refrain::model {
namespace {

constexpr std::size_t kLanes = 16;  // rows whose logits are computed together

// Four of them: compilers turn plain loops over the lanes into ones over pairs of dims, which take
// several times as long.
using Four [[gnu::vector_size(16)]] = float;
constexpr std::size_t kFours = kLanes / 4;

Four load_four(const float* from) {
  Four four;
  std::memcpy(&four, from, sizeof four);
  return four;
}

// exp(logits - their largest) / sum in place; what is not finite becomes 0.
void normalise(std::span<float> logits) {
  float largest = -INFINITY;
  for (const float logit : logits)
    if (std::isfinite(logit)) largest = std::max(largest, logit);
  double sum = 0;
  for (float& logit : logits) {
    logit = std::isfinite(logit) ? std::exp(logit - largest) : 0.0F;
    sum += double{logit};
  }
  if (sum > 0)
    for (float& weight : logits) weight = static_cast<float>(double{weight} / sum);
}

float length_of(std::span<const float> x) {
  double sum = 0;
  for (const float value : x) sum += double{value} * double{value};
  return static_cast<float>(std::sqrt(sum));
}

}  // namespace

ExpectedAttention::ExpectedAttention(const Model& model, std::size_t most_covariance)
    : shape_(model.shape()),
      rotary_(model),
      has_covariance_(std::size_t{shape_.layer_count} * shape_.head_count * shape_.key_dim *
                          shape_.key_dim <=
                      most_covariance) {
  const std::size_t dim = shape_.key_dim;
  const std::size_t floats = std::size_t{shape_.layer_count} * shape_.head_count * dim;
  shift_.assign(floats, 0.0F);
  mean_.assign(floats, 0.0F);
  if (has_covariance_) covariance_.assign(floats * dim, 0.0F);
  query_.assign(dim, 0.0F);
}

std::size_t ExpectedAttention::head_at(std::uint32_t layer, std::uint32_t head) const {
  return std::size_t{layer} * shape_.head_count + head;
}

const ExpectedAttention::Turn& ExpectedAttention::turn_of(const Turns& turns,
                                                          std::uint32_t layer) const {
  return turns[shape_.is_local_layer(layer) ? 1 : 0];
}

// Without the magnitude that some rotations have: queries keep theirs.
ExpectedAttention::Turns ExpectedAttention::turns_by(Position distance) const {
  Turns turns;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const RotaryFrequencies& frequencies = i == 0 ? rotary_.global() : rotary_.local();
    turns[i].cosine.resize(frequencies.dimensions() / 2);
    turns[i].sine.resize(frequencies.dimensions() / 2);
    frequencies.turn(distance, turns[i].cosine.data(), turns[i].sine.data());
  }
  return turns;
}

ExpectedAttention::Turns ExpectedAttention::mean_turns(Position first) const {
  constexpr float kShare = 1.0F / kFutureRows;
  Turns mean = turns_by(0);
  for (Turn& turn : mean) {
    std::fill(turn.cosine.begin(), turn.cosine.end(), 0.0F);
    std::fill(turn.sine.begin(), turn.sine.end(), 0.0F);
  }
  for (Position row = 0; row < Position{kFutureRows}; ++row) {
    const Turns turns = turns_by(first + row);
    for (std::size_t i = 0; i < turns.size(); ++i) {
      for (std::size_t pair = 0; pair < turns[i].cosine.size(); ++pair) {
        mean[i].cosine[pair] += kShare * turns[i].cosine[pair];
        mean[i].sine[pair] += kShare * turns[i].sine[pair];
      }
    }
  }
  return mean;
}

// The pairs of x[0], x[stride], ..; dims behind the rotary ones stay.
void ExpectedAttention::turn(const Turn& by, float* x, std::size_t stride) const {
  const bool halves = shape_.rope.layout == RopeLayout::kHalves;
  const std::size_t pairs = by.cosine.size();
  for (std::size_t i = 0; i < pairs; ++i) {
    float& a = x[(halves ? i : 2 * i) * stride];
    float& b = x[(halves ? i + pairs : 2 * i + 1) * stride];
    const float turned = a * by.cosine[i] - b * by.sine[i];
    b = a * by.sine[i] + b * by.cosine[i];
    a = turned;
  }
}

void ExpectedAttention::add(std::span<const float> queries, std::span<const Position> positions) {
  const std::size_t dim = shape_.key_dim;
  CHECK(!is_ready_, "queries that come too late");
  CHECK(queries.size() ==
            std::size_t{shape_.layer_count} * positions.size() * shape_.head_count * shape_.key_dim,
        "queries of other rows or of another model");
  for (std::size_t row = 0; row < positions.size(); ++row, ++count_) {
    const Turns back = turns_by(-positions[row]);
    for (std::uint32_t layer = 0; layer < shape_.layer_count; ++layer) {
      const float* from =
          queries.data() + (layer * positions.size() + row) * shape_.head_count * dim;
      for (std::uint32_t head = 0; head < shape_.head_count; ++head)
        add_head(head_at(layer, head), from + head * dim, turn_of(back, layer));
    }
  }
}

// Sums go over what is above the first query, so that little is lost where the mean is large.
void ExpectedAttention::add_head(std::size_t head, const float* query, const Turn& back) {
  const std::size_t dim = shape_.key_dim;
  std::copy_n(query, dim, query_.data());
  turn(back, query_.data(), 1);
  float* shift = shift_.data() + head * dim;
  if (count_ == 0) std::copy_n(query_.data(), dim, shift);
  float* sum = mean_.data() + head * dim;
  for (std::size_t i = 0; i < dim; ++i) {
    query_[i] -= shift[i];
    sum[i] += query_[i];
  }
  if (!has_covariance_) return;
  float* products = covariance_.data() + head * dim * dim;
  for (std::size_t i = 0; i < dim; ++i)
    for (std::size_t j = 0; j <= i; ++j) products[i * dim + j] += query_[i] * query_[j];
}

void ExpectedAttention::expect_from(Position next) {
  CHECK(!is_ready_ && count_ > 0, "nothing to expect anything from");
  const Turns ahead = mean_turns(next);
  for (std::uint32_t layer = 0; layer < shape_.layer_count; ++layer)
    for (std::uint32_t head = 0; head < shape_.head_count; ++head)
      finish_head(head_at(layer, head), turn_of(ahead, layer));
  next_ = static_cast<std::uint32_t>(next);
  is_ready_ = true;
}

void ExpectedAttention::finish_head(std::size_t head, const Turn& ahead) {
  const std::size_t dim = shape_.key_dim;
  const auto count = static_cast<float>(count_);
  const float scale = shape_.attention_scale;
  float* mean = mean_.data() + head * dim;
  for (std::size_t i = 0; i < dim; ++i) mean[i] /= count;
  if (has_covariance_) {
    float* matrix = covariance_.data() + head * dim * dim;
    for (std::size_t i = 0; i < dim; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        const float value = matrix[i * dim + j] / count - mean[i] * mean[j];
        matrix[i * dim + j] = matrix[j * dim + i] = value;
      }
    }
    for (std::size_t i = 0; i < dim; ++i) turn(ahead, matrix + i * dim, 1);
    for (std::size_t i = 0; i < dim; ++i) turn(ahead, matrix + i, dim);
    const float factor = 0.5F * scale * scale;
    for (std::size_t i = 0; i < dim; ++i)
      for (std::size_t j = 0; j <= i; ++j) matrix[i * dim + j] *= j < i ? 2.0F * factor : factor;
  }
  const float* shift = shift_.data() + head * dim;
  for (std::size_t i = 0; i < dim; ++i) mean[i] += shift[i];
  turn(ahead, mean, 1);
  for (std::size_t i = 0; i < dim; ++i) mean[i] *= scale;
}

// keys [key_dim][16]; logits [16].
void ExpectedAttention::logits_of_tile(std::size_t head, const float* keys, float* logits) const {
  const std::size_t dim = shape_.key_dim;
  const float* mean = mean_.data() + head * dim;
  const float* matrix = has_covariance_ ? covariance_.data() + head * dim * dim : nullptr;
  std::array<Four, kFours> sums{};
  for (std::size_t i = 0; i < dim; ++i) {
    std::array<Four, kFours> terms;
    for (Four& term : terms) term = Four{} + mean[i];
    for (std::size_t j = 0; matrix != nullptr && j <= i; ++j) {
      const float factor = matrix[i * dim + j];
      for (std::size_t at = 0; at < kFours; ++at)
        terms[at] += factor * load_four(keys + j * kLanes + at * 4);
    }
    for (std::size_t at = 0; at < kFours; ++at)
      sums[at] += load_four(keys + i * kLanes + at * 4) * terms[at];
  }
  std::memcpy(logits, sums.data(), sizeof sums);
}

// Behind the sinks, and within the window of a local layer.
std::size_t ExpectedAttention::first_row(std::uint32_t layer) const {
  const bool local = shape_.is_local_layer(layer) || shape_.global_layer_period == 0;
  const std::uint32_t window = local ? shape_.sliding_window : 0;
  const std::uint32_t hidden = window == 0 || next_ < window ? 0 : next_ - window + 1;
  return std::max(kSinkRows, hidden);
}

void ExpectedAttention::score(std::uint32_t layer, std::uint32_t kv_head, const KvArena& arena,
                              std::span<const std::size_t> slots, std::span<float> scores) const {
  CHECK(is_ready_ && slots.size() == scores.size(), "scores before their queries");
  const std::size_t dim = shape_.key_dim;
  const std::uint32_t group = shape_.head_count / shape_.kv_head_count;
  std::fill(scores.begin(), scores.end(), 0.0F);
  const std::size_t first = first_row(layer);
  if (first >= slots.size()) return;
  const std::size_t rows = slots.size() - first;
  const std::size_t stride = (rows + kLanes - 1) / kLanes * kLanes;
  std::vector<float> logits(group * stride), lengths(rows), keys(dim * kLanes), key(dim),
      value(shape_.value_dim);
  for (std::size_t at = 0; at < rows; at += kLanes) {
    for (std::size_t lane = 0; lane < std::min(kLanes, rows - at); ++lane) {
      arena.read_row(layer, kv_head, slots[first + at + lane], key.data(), value.data());
      for (std::size_t i = 0; i < dim; ++i) keys[i * kLanes + lane] = key[i];
      lengths[at + lane] = length_of(value);
    }
    for (std::uint32_t head = 0; head < group; ++head)
      logits_of_tile(head_at(layer, kv_head * group + head), keys.data(),
                     logits.data() + head * stride + at);
  }
  for (std::uint32_t head = 0; head < group; ++head) {
    const auto of_head = std::span(logits).subspan(head * stride, rows);
    normalise(of_head);
    for (std::size_t i = 0; i < rows; ++i)
      scores[first + i] += of_head[i] * lengths[i] / static_cast<float>(group);
  }
}

std::size_t ExpectedAttention::products_per_row() const {
  const std::size_t dim = shape_.key_dim;
  const std::size_t group = shape_.head_count / shape_.kv_head_count;
  return group * dim * (has_covariance_ ? (dim + 3) / 2 : 1);
}

}  // namespace refrain::model
