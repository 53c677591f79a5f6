// Packs all matrices of a model. See packed_weights.h.
#include "model/packed_weights.h"

#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "ggml.h"

namespace refrain::model {
namespace {

constexpr std::size_t kAlignment = 64;

kernels::WeightType type_of(const ggml_tensor* tensor) {
  switch (tensor->type) {
    case GGML_TYPE_F32:
      return kernels::WeightType::kF32;
    case GGML_TYPE_F16:
      return kernels::WeightType::kF16;
    case GGML_TYPE_BF16:
      return kernels::WeightType::kBF16;
    case GGML_TYPE_Q4_0:
      return kernels::WeightType::kQ4_0;
    case GGML_TYPE_Q4_1:
      return kernels::WeightType::kQ4_1;
    case GGML_TYPE_Q5_0:
      return kernels::WeightType::kQ5_0;
    case GGML_TYPE_Q5_1:
      return kernels::WeightType::kQ5_1;
    case GGML_TYPE_Q8_0:
      return kernels::WeightType::kQ8_0;
    case GGML_TYPE_Q4_K:
      return kernels::WeightType::kQ4_K;
    case GGML_TYPE_Q5_K:
      return kernels::WeightType::kQ5_K;
    case GGML_TYPE_Q6_K:
      return kernels::WeightType::kQ6_K;
    default:
      break;
  }
  CHECK(false, "the loader passed a tensor type that no kernel reads");
}

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
    const kernels::PackedMatrix matrix{type_of(tensor), static_cast<std::uint32_t>(tensor->ne[1]),
                                       static_cast<std::uint32_t>(tensor->ne[0]), nullptr};
    made->matrices_[tensor] = matrix;
    bytes += (matrix.bytes() + kAlignment - 1) / kAlignment * kAlignment;
  }
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return Error{Code::kUnavailable, "not enough memory for the packed weights",
                 "take a smaller model or quantization"};
  }
  made->memory_ = static_cast<std::byte*>(memory);
  made->bytes_ = bytes;
  madvise(memory, bytes, MADV_HUGEPAGE);  // fewer address translations; only advice
  std::byte* at = made->memory_;
  for (const ggml_tensor* tensor : tensors) {
    kernels::PackedMatrix& matrix = made->matrices_.at(tensor);
    const auto* source = static_cast<const std::byte*>(tensor->data);
    const std::uint32_t panels = matrix.panel_count();
    const std::uint32_t step = std::max(1U, panels / (8 * team.thread_count()));
    auto task = [&](std::uint32_t index, std::uint32_t) {
      const std::uint32_t first = index * step;
      pack_panels(matrix, source, first, std::min(panels, first + step), at);
    };
    team.run((panels + step - 1) / step, task);
    matrix.data = at;
    at += (matrix.bytes() + kAlignment - 1) / kAlignment * kAlignment;
    weights.release_pages(tensor);
    if (on_progress)
      on_progress(static_cast<double>(at - made->memory_) / static_cast<double>(bytes));
  }
  return made;
}

PackedWeights::~PackedWeights() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

const kernels::PackedMatrix& PackedWeights::of(Weight matrix) const {
  const auto found = matrices_.find(matrix);
  CHECK(found != matrices_.end(), "a matrix that was not packed");
  return found->second;
}

}  // namespace refrain::model
