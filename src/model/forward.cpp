// Llama (Touvron et al. 2023), Qwen2 and Qwen3 (Qwen team 2024, 2025), Gemma 3 (Gemma team 2025).
#include "model/forward.h"

namespace refrain::model {
namespace {

using Node = Operators::Node;

class ForwardPass {
 public:
  ForwardPass(const ModelShape& shape, const Weights& weights, Operators& operators)
      : shape_(shape), weights_(weights), ops_(operators) {}

  void run() {
    Node x = ops_.embed(weights_.token_embedding());
    if (shape_.embedding_scale != 1.0F) x = ops_.scale(x, shape_.embedding_scale);
    for (std::uint32_t layer = 0; layer < shape_.layer_count; ++layer) {
      const LayerWeights& w = weights_.layers()[layer];
      const Node q = project_and_store(x, layer, w);
      const bool last = layer + 1 == shape_.layer_count;
      if (last && !ops_.wants_output()) return;  // all keys and values are stored
      Node attended = ops_.attend(q, settings_of(layer));
      if (last) {
        attended = ops_.select_output_rows(attended);
        x = ops_.select_output_rows(x);
      }
      attended = ops_.linear(attended, w.attention_output, w.attention_output_bias);
      x = ops_.add(x, post_norm(attended, w.attention_post_norm));
      x = ops_.add(x, post_norm(feed_forward(x, w), w.feed_forward_post_norm));
    }
    x = norm(x, weights_.output_norm());
    ops_.output(x, weights_.output(), shape_.logit_softcap);
  }

 private:
  Node norm(Node x, Weight weight) {
    return ops_.rms_norm(x, weight, shape_.embedding_dim, shape_.norm_epsilon);
  }
  Node post_norm(Node x, Weight weight) { return weight == nullptr ? x : norm(x, weight); }

  AttentionSettings settings_of(std::uint32_t layer) const {
    // Without a period every layer of a model with a window is local.
    const bool local = shape_.is_local_layer(layer) || shape_.global_layer_period == 0;
    return {layer, local ? shape_.sliding_window : 0, shape_.attention_scale};
  }

  // Position information goes in after the norm of each head.
  Node rotated(Node x, Weight head_norm, std::uint32_t layer) {
    if (head_norm != nullptr) {
      x = ops_.rms_norm(x, head_norm, shape_.key_dim, shape_.norm_epsilon);
    }
    // Gemma 3 stretches the positions of its global layers only.
    const bool local = shape_.is_local_layer(layer);
    return ops_.rope(x, shape_.key_dim, shape_.rope,
                     local ? shape_.rope.base_local : shape_.rope.base, !local,
                     weights_.rope_factors());
  }

  // Stores the layer's keys and values; returns the queries.
  Node project_and_store(Node x, std::uint32_t layer, const LayerWeights& w) {
    const Node normed = norm(x, w.attention_norm);
    // The products stand together so that operators may compute them together.
    Node q = ops_.linear(normed, w.query, w.query_bias);
    Node k = ops_.linear(normed, w.key, w.key_bias);
    const Node v = ops_.linear(normed, w.value, w.value_bias);
    q = rotated(q, w.query_norm, layer);
    k = rotated(k, w.key_norm, layer);
    ops_.store_kv(layer, k, v);
    return q;
  }

  Node feed_forward(Node x, const LayerWeights& w) {
    const Node normed = norm(x, w.feed_forward_norm);
    const Node gate = ops_.linear(normed, w.gate, nullptr);
    const Node up = ops_.linear(normed, w.up, nullptr);
    const Node both = ops_.glu(gate, up, shape_.gelu ? Gate::kGelu : Gate::kSilu);
    return ops_.linear(both, w.down, nullptr);
  }

  const ModelShape& shape_;
  const Weights& weights_;
  Operators& ops_;
};

}  // namespace

void forward(const ModelShape& shape, const Weights& weights, Operators& operators) {
  ForwardPass(shape, weights, operators).run();
}

}  // namespace refrain::model
