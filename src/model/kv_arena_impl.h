// The inside of the KV arena, for executors in model/ only: a ggml tensor per layer and side whose
// row index is the slot. Engine thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/kv_arena.h"

struct ggml_backend_buffer;
struct ggml_context;
struct ggml_tensor;

namespace refrain::model {

class KvArena::Impl {
 public:
  struct Layer {
    ggml_tensor* keys = nullptr;    // [kv_head_count * key_dim, slots]
    ggml_tensor* values = nullptr;  // [kv_head_count * value_dim, slots]
  };

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl();

  const Layer& layer(std::size_t index) const { return layers_[index]; }

 private:
  friend class KvArena;

  void* memory_ = nullptr;  // one anonymous mapping
  std::size_t bytes_ = 0;
  KvFormat format_ = KvFormat::kF16;
  std::uint32_t block_size_ = 0;
  std::uint32_t block_count_ = 0;
  ggml_context* context_ = nullptr;        // the tensors' headers
  ggml_backend_buffer* buffer_ = nullptr;  // over memory_
  std::vector<Layer> layers_;
};

}  // namespace refrain::model
