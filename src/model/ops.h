// Operators: the small set of operations an architecture (forward.h) is written in. An
// implementation may record them and compute later (ops_ggml: one ggml graph per batch) or compute
// at once on plain buffers; `Node` is a handle that only the implementation understands, valid
// until the end of the batch. All values are FP32 rows, one per row of the batch: [dim] each;
// weights keep their stored type. Every operator works on each row for itself: only attend() looks
// at other rows, and only at those of the same sequence with smaller or equal positions.
// Engine thread.
#pragma once

#include <cstdint>

#include "kernels/row_ops.h"
#include "model/shape.h"

struct ggml_tensor;

namespace refrain::model {

using Weight = const ggml_tensor*;  // see weights.h; null where an operator says "may be null"

// What attend() needs to know of a layer.
struct AttentionSettings {
  std::uint32_t layer = 0;
  std::uint32_t window = 0;  // a row sees keys in (position - window, position]; 0 = all before it
  float scale = 1.0F;
  float soft_cap = 0.0F;  // scores become soft_cap * tanh(score / soft_cap); 0 = none
};

using kernels::Gate;

class Operators {
 public:
  // A null node is `{}`.
  struct Node {
    void* handle = nullptr;
  };

  virtual ~Operators() = default;

  // Rows of `table` [dim, vocabulary] for the batch's tokens.
  virtual Node embed(Weight table) = 0;
  virtual Node scale(Node x, float factor) = 0;
  virtual Node add(Node a, Node b) = 0;
  // x / sqrt(mean(x^2) + epsilon) * weight over pieces of `dim` values: dim is the whole row, or a
  // head's size, then each head is normalised for itself with the same weight [dim].
  virtual Node rms_norm(Node x, Weight weight, std::uint32_t dim, float epsilon) = 0;
  // matrix [in, out] times each row, plus bias [out] (may be null).
  virtual Node linear(Node x, Weight matrix, Weight bias) = 0;
  // Rotates the first settings.dimensions of each head by the row's position, with `base` (a local
  // layer's differs). `factors` [dimensions / 2] divide the frequencies; may be null.
  virtual Node rope(Node x, std::uint32_t head_dim, const RopeSettings& settings, float base,
                    bool scaled, Weight factors) = 0;
  // Writes each row's key and value to its slot, in the arena's format.
  virtual void store_kv(std::uint32_t layer, Node key, Node value) = 0;
  // Softmax attention of each row over its sequence's stored keys, those of this batch included.
  virtual Node attend(Node query, const AttentionSettings& settings) = 0;
  // gate(a) * b.
  virtual Node glu(Node a, Node b, Gate gate) = 0;

  // True if some row of the batch wants logits or its hidden state.
  virtual bool wants_output() const = 0;
  // Only the rows that want logits or hidden state; the operators above work on them alike.
  virtual Node select_output_rows(Node x) = 0;
  // Rows as selected: writes the hidden states that are wanted to the batch's output, and for rows
  // that want logits the product with `matrix`, soft_cap * tanh(y / soft_cap) if soft_cap > 0.
  virtual void output(Node hidden, Weight matrix, float soft_cap) = 0;
};

}  // namespace refrain::model
