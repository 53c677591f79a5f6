// The forward pass of all supported architectures, written once against Operators. Differences
// between architectures are flags of ModelShape. Engine thread.
//
//   x = embed(tokens)
//   per layer   x += post(attention(norm(x)))     q, k, v -> q/k norm -> rope -> store, attend
//               x += post(down(glu(norm(x))))
//   output      logits = matrix * norm(x)
#pragma once

#include "model/ops.h"
#include "model/shape.h"
#include "model/weights.h"

namespace refrain::model {

void forward(const ModelShape& shape, const Weights& weights, Operators& operators);

}  // namespace refrain::model
