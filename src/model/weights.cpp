// Finds the tensors of a model by name, checks their sizes and places ggml tensors on the mapping.
#include "model/weights.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>
#include <string>

#include "base/check.h"
#include "ggml-backend.h"
#include "ggml.h"

namespace refrain::model {
namespace {

constexpr std::size_t kAlignment = 64;            // of copied tensors
constexpr std::uintptr_t kInPlaceAlignment = 32;  // what the operators want of a mapped tensor
constexpr std::size_t kPageBytes = 4096;

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<std::byte, FreeMemory>;

Memory allocate(std::size_t bytes) {
  const std::size_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return Memory(static_cast<std::byte*>(std::aligned_alloc(kAlignment, whole)));
}

std::string size_text(std::uint64_t rows, std::uint64_t columns) {
  return "[" + std::to_string(rows) + ", " + std::to_string(columns) + "]";
}

// Reads one byte of every page, so that the disk is read now and not in the first request.
void touch(std::span<const std::byte> data) {
  volatile std::byte sink{};
  for (std::size_t at = 0; at < data.size(); at += kPageBytes) sink = data[at];
  (void)sink;
}

}  // namespace

struct Weights::Storage {
  ggml_context* context = nullptr;                // headers of the tensors
  ggml_backend_buffer_t mapped_buffer = nullptr;  // over the file's tensor data
  std::vector<ggml_backend_buffer_t> copy_buffers;
  std::vector<Memory> copies;
  std::uint64_t copied_bytes = 0;

  Storage() = default;
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  ~Storage() {
    ggml_backend_buffer_free(mapped_buffer);
    for (ggml_backend_buffer_t buffer : copy_buffers) ggml_backend_buffer_free(buffer);
    ggml_free(context);
  }
};

class WeightsLoader {
 public:
  WeightsLoader(Weights& weights, const ModelShape& shape,
                const std::function<void(double)>& on_progress)
      : weights_(weights),
        storage_(*weights.storage_),
        file_(*weights.file_),
        shape_(shape),
        on_progress_(on_progress) {}

  Result<void> load() {
    RETURN_IF_ERROR(open_storage());
    const std::uint64_t dim = shape_.embedding_dim;
    RETURN_IF_ERROR(take(weights_.token_embedding_, "token_embd.weight", dim,
                         shape_.vocabulary_size, Need::kRequired));
    RETURN_IF_ERROR(take_vector(weights_.output_norm_, "output_norm.weight", dim, Need::kRequired));
    if (shape_.tied_output) {
      weights_.output_ = weights_.token_embedding_;
    } else {
      RETURN_IF_ERROR(
          take(weights_.output_, "output.weight", dim, shape_.vocabulary_size, Need::kRequired));
    }
    weights_.layers_.resize(shape_.layer_count);
    for (std::uint32_t layer = 0; layer < shape_.layer_count; ++layer) {
      RETURN_IF_ERROR(load_attention(layer, weights_.layers_[layer]));
      RETURN_IF_ERROR(load_feed_forward(layer, weights_.layers_[layer]));
    }
    RETURN_IF_ERROR(load_rope_factors());
    if (on_progress_) on_progress_(1.0);
    return {};
  }

 private:
  enum class Need { kRequired, kOptional };

  Need needed_if(bool condition) const { return condition ? Need::kRequired : Need::kOptional; }

  Result<void> open_storage() {
    constexpr std::size_t kTensorsPerLayer = 20, kTensorsBesideLayers = 8;
    const std::size_t count = shape_.layer_count * kTensorsPerLayer + kTensorsBesideLayers;
    storage_.context = ggml_init({ggml_tensor_overhead() * count, nullptr, true});
    if (storage_.context == nullptr) return out_of_memory();
    // One buffer from the first tensor's data, rounded down to what ggml wants, to the last's end.
    std::uintptr_t begin = UINTPTR_MAX, end = 0;
    for (const TensorInfo& info : file_.tensors()) {
      const auto data = file_.tensor_data(info);
      const auto at = reinterpret_cast<std::uintptr_t>(data.data());
      begin = std::min(begin, at);
      end = std::max(end, at + data.size());
      total_bytes_ += data.size();
    }
    if (begin >= end) return Error{Code::kDataLoss, "`" + file_.path() + "` has no tensors"};
    begin -= begin % kInPlaceAlignment;  // still inside the mapping, which starts on a page
    storage_.mapped_buffer =
        ggml_backend_cpu_buffer_from_ptr(reinterpret_cast<void*>(begin), end - begin);
    if (storage_.mapped_buffer == nullptr) return out_of_memory();
    return {};
  }

  Result<void> load_attention(std::uint32_t layer, LayerWeights& w) {
    const std::uint64_t dim = shape_.embedding_dim;
    const std::uint64_t query_dim = std::uint64_t{shape_.head_count} * shape_.key_dim;
    const std::uint64_t key_dim = std::uint64_t{shape_.kv_head_count} * shape_.key_dim;
    const std::uint64_t value_dim = std::uint64_t{shape_.kv_head_count} * shape_.value_dim;
    const std::uint64_t attended_dim = std::uint64_t{shape_.head_count} * shape_.value_dim;
    const Need bias = needed_if(shape_.qkv_bias), head_norm = needed_if(shape_.qk_norm);
    const auto name = [layer](const char* role) {
      return "blk." + std::to_string(layer) + "." + role;
    };
    RETURN_IF_ERROR(take_vector(w.attention_norm, name("attn_norm.weight"), dim, Need::kRequired));
    RETURN_IF_ERROR(take(w.query, name("attn_q.weight"), dim, query_dim, Need::kRequired));
    RETURN_IF_ERROR(take(w.key, name("attn_k.weight"), dim, key_dim, Need::kRequired));
    RETURN_IF_ERROR(take(w.value, name("attn_v.weight"), dim, value_dim, Need::kRequired));
    RETURN_IF_ERROR(take_vector(w.query_bias, name("attn_q.bias"), query_dim, bias));
    RETURN_IF_ERROR(take_vector(w.key_bias, name("attn_k.bias"), key_dim, bias));
    RETURN_IF_ERROR(take_vector(w.value_bias, name("attn_v.bias"), value_dim, bias));
    RETURN_IF_ERROR(
        take_vector(w.query_norm, name("attn_q_norm.weight"), shape_.key_dim, head_norm));
    RETURN_IF_ERROR(take_vector(w.key_norm, name("attn_k_norm.weight"), shape_.key_dim, head_norm));
    RETURN_IF_ERROR(
        take(w.attention_output, name("attn_output.weight"), attended_dim, dim, Need::kRequired));
    RETURN_IF_ERROR(
        take_vector(w.attention_output_bias, name("attn_output.bias"), dim, Need::kOptional));
    return take_vector(w.attention_post_norm, name("post_attention_norm.weight"), dim,
                       needed_if(shape_.post_norms));
  }

  Result<void> load_feed_forward(std::uint32_t layer, LayerWeights& w) {
    const std::uint64_t dim = shape_.embedding_dim, inner = shape_.feed_forward_dim;
    const auto name = [layer](const char* role) {
      return "blk." + std::to_string(layer) + "." + role;
    };
    RETURN_IF_ERROR(
        take_vector(w.feed_forward_norm, name("ffn_norm.weight"), dim, Need::kRequired));
    RETURN_IF_ERROR(take(w.gate, name("ffn_gate.weight"), dim, inner, Need::kRequired));
    RETURN_IF_ERROR(take(w.up, name("ffn_up.weight"), dim, inner, Need::kRequired));
    RETURN_IF_ERROR(take(w.down, name("ffn_down.weight"), inner, dim, Need::kRequired));
    return take_vector(w.feed_forward_post_norm, name("post_ffw_norm.weight"), dim,
                       needed_if(shape_.post_norms));
  }

  Result<void> load_rope_factors() {
    const std::vector<float>& factors = shape_.rope.frequency_factors;
    if (factors.empty()) return {};
    CHECK(factors.size() * 2 >= shape_.rope.dimensions, "too few rope frequency factors");
    ggml_tensor* tensor = ggml_new_tensor_1d(storage_.context, GGML_TYPE_F32,
                                             static_cast<std::int64_t>(factors.size()));
    RETURN_IF_ERROR(give_memory(tensor));
    std::copy(factors.begin(), factors.end(), static_cast<float*>(tensor->data));
    weights_.rope_factors_ = tensor;
    return {};
  }

  // The tensor's entry in the file, or null if it is absent and may be.
  Result<const TensorInfo*> find(const std::string& name, std::uint64_t columns, std::uint64_t rows,
                                 Need need) const {
    const TensorInfo* info = file_.find_tensor(name);
    if (info == nullptr) {
      if (need == Need::kOptional) return info;
      return Error{Code::kDataLoss, "`" + file_.path() + "` lacks tensor `" + name + "`",
                   "the file is incomplete or its architecture is mislabelled", name};
    }
    if (info->dims != std::array<std::uint64_t, 4>{columns, rows, 1, 1}) {
      return Error{Code::kDataLoss,
                   "tensor `" + name + "` of `" + file_.path() + "` is " +
                       size_text(info->dims[0], info->dims[1]) + ", the metadata say " +
                       size_text(columns, rows),
                   "the file is damaged or its metadata are wrong", name};
    }
    return info;
  }

  // A matrix [columns, rows], in the file's own type.
  Result<void> take(ggml_tensor*& target, const std::string& name, std::uint64_t columns,
                    std::uint64_t rows, Need need) {
    ASSIGN_OR_RETURN(const TensorInfo* info, find(name, columns, rows, need));
    if (info == nullptr) return {};
    const auto data = file_.tensor_data(*info);
    ggml_tensor* tensor =
        ggml_new_tensor_2d(storage_.context, static_cast<ggml_type>(info->type),
                           static_cast<std::int64_t>(columns), static_cast<std::int64_t>(rows));
    CHECK(ggml_nbytes(tensor) == data.size(), "the validator passed a tensor of a wrong size");
    if (reinterpret_cast<std::uintptr_t>(data.data()) % kInPlaceAlignment == 0) {
      CHECK(ggml_backend_tensor_alloc(storage_.mapped_buffer, tensor,
                                      const_cast<std::byte*>(data.data())) == GGML_STATUS_SUCCESS,
            "a tensor lies outside the mapping");
      touch(data);
    } else {
      RETURN_IF_ERROR(give_memory(tensor));
      std::copy(data.begin(), data.end(), static_cast<std::byte*>(tensor->data));
    }
    report(data.size());
    target = tensor;
    return {};
  }

  // A vector [size]; norms and biases are FP32 in every file of the supported architectures.
  Result<void> take_vector(ggml_tensor*& target, const std::string& name, std::uint64_t size,
                           Need need) {
    RETURN_IF_ERROR(take(target, name, size, 1, need));
    if (target == nullptr || target->type == GGML_TYPE_F32) return {};
    return Error{Code::kUnsupported,
                 "tensor `" + name + "` has type " + ggml_type_name(target->type) + ", not F32", "",
                 name};
  }

  // Memory of its own for a tensor that cannot stay in the mapping.
  Result<void> give_memory(ggml_tensor* tensor) {
    const std::size_t bytes = ggml_nbytes(tensor);
    Memory memory = allocate(bytes);
    if (memory == nullptr) return out_of_memory();
    ggml_backend_buffer_t buffer = ggml_backend_cpu_buffer_from_ptr(memory.get(), bytes);
    if (buffer == nullptr) return out_of_memory();
    storage_.copy_buffers.push_back(buffer);
    CHECK(ggml_backend_tensor_alloc(buffer, tensor, memory.get()) == GGML_STATUS_SUCCESS,
          "a copied tensor does not fit its buffer");
    storage_.copies.push_back(std::move(memory));
    storage_.copied_bytes += bytes;
    return {};
  }

  void report(std::uint64_t bytes) {
    done_bytes_ += bytes;
    if (on_progress_) {
      on_progress_(static_cast<double>(done_bytes_) / static_cast<double>(total_bytes_));
    }
  }

  Error out_of_memory() const {
    return {Code::kUnavailable, "not enough memory to load `" + file_.path() + "`"};
  }

  Weights& weights_;
  Weights::Storage& storage_;
  const GgufFile& file_;
  const ModelShape& shape_;
  const std::function<void(double)>& on_progress_;
  std::uint64_t total_bytes_ = 0;
  std::uint64_t done_bytes_ = 0;
};

Weights::Weights(std::unique_ptr<GgufFile> file)
    : file_(std::move(file)), storage_(std::make_unique<Storage>()) {}
Weights::~Weights() = default;

Result<std::unique_ptr<Weights>> Weights::load(std::unique_ptr<GgufFile> file,
                                               const ModelShape& shape,
                                               const std::function<void(double)>& on_progress) {
  CHECK(file != nullptr, "no file to load weights from");
  std::unique_ptr<Weights> weights(new Weights(std::move(file)));
  RETURN_IF_ERROR(WeightsLoader(*weights, shape, on_progress).load());
  return weights;
}

void Weights::release_pages(const ggml_tensor* tensor) const {
  if (tensor->buffer != storage_->mapped_buffer) return;
  file_->release({static_cast<const std::byte*>(tensor->data), ggml_nbytes(tensor)});
}

std::uint64_t Weights::copied_bytes() const {
  return storage_->copied_bytes;
}

}  // namespace refrain::model
