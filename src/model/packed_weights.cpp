// Packs all matrices of a model. See packed_weights.h.
#include "model/packed_weights.h"

#include <algorithm>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/check.h"
#include "ggml.h"
#include "model/step_cut.h"
#include "model/weight_types.h"

namespace refrain::model {
namespace {

// Every matrix that linear() or output() may be given; the embedding only if it is the output too.
std::vector<const ggml_tensor*> matrices_of(const Weights& weights) {
  std::vector<const ggml_tensor*> all;
  for (const LayerWeights& w : weights.layers()) {
    for (const ggml_tensor* matrix :
         {w.query, w.key, w.value, w.attention_output, w.gate, w.up, w.down}) {
      if (matrix != nullptr) all.push_back(matrix);
    }
  }
  all.push_back(weights.output());
  return all;
}

}  // namespace

Result<std::unique_ptr<PackedWeights>> PackedWeights::pack(
    const Weights& weights, WorkerTeam& team, const std::function<void(double)>& on_progress) {
  std::unique_ptr<PackedWeights> made(new PackedWeights);
  const std::vector<const ggml_tensor*> tensors = matrices_of(weights);
  std::size_t bytes = 0;
  for (const ggml_tensor* tensor : tensors) {
    const kernels::PackedMatrix matrix{weight_type_of(tensor->type),
                                       static_cast<std::uint32_t>(tensor->ne[1]),
                                       static_cast<std::uint32_t>(tensor->ne[0]), nullptr};
    made->matrices_[tensor] = matrix;
    bytes += AlignedBuffer::rounded_up(matrix.bytes());
  }
  ASSIGN_OR_RETURN(made->memory_, PageMemory::map(bytes, "the packed weights",
                                                  "take a smaller model or quantization"));
  std::byte* at = made->memory_.data();
  for (const ggml_tensor* tensor : tensors) {
    kernels::PackedMatrix& matrix = made->matrices_.at(tensor);
    const auto* source = static_cast<const std::byte*>(tensor->data);
    const std::uint32_t panels = matrix.panel_count();
    const std::uint32_t step = std::max(1U, panels / (8 * team.thread_count()));
    auto task = [&](std::uint32_t index, std::uint32_t) {
      const std::uint32_t first = index * step;
      pack_panels(matrix, source, first, std::min(panels, first + step), at);
    };
    team.run(pieces_of(panels, step), task);
    matrix.data = at;
    at += AlignedBuffer::rounded_up(matrix.bytes());
    weights.release_pages(tensor);
    if (on_progress)
      on_progress(static_cast<double>(at - made->memory_.data()) / static_cast<double>(bytes));
  }
  return made;
}

const kernels::PackedMatrix& PackedWeights::of(Weight matrix) const {
  const auto found = matrices_.find(matrix);
  CHECK(found != matrices_.end(), "a matrix that was not packed");
  return found->second;
}

}  // namespace refrain::model
