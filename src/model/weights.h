// Weights: the tensors of a model by role. They stay in the file mapping, which Weights keeps open,
// so that memory stays near the file's size; only tensors whose place in the file is not aligned
// for the operators are copied. Immutable after load(); any thread. ggml appears in weights.cpp.
//
//   LayerWeights of a llama:  attention_norm -> query, key, value -> attention_output
//                             feed_forward_norm -> gate, up -> down
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "model/gguf_file.h"
#include "model/shape.h"

struct ggml_tensor;

namespace refrain::model {

// A null tensor means: this model has none.
struct LayerWeights {
  ggml_tensor* attention_norm = nullptr;  // [embedding_dim]
  ggml_tensor* query = nullptr;           // [embedding_dim, head_count * key_dim]
  ggml_tensor* key = nullptr;             // [embedding_dim, kv_head_count * key_dim]
  ggml_tensor* value = nullptr;           // [embedding_dim, kv_head_count * value_dim]
  ggml_tensor* query_bias = nullptr;
  ggml_tensor* key_bias = nullptr;
  ggml_tensor* value_bias = nullptr;
  ggml_tensor* query_norm = nullptr;        // [key_dim], shared by all heads
  ggml_tensor* key_norm = nullptr;          // [key_dim]
  ggml_tensor* attention_output = nullptr;  // [head_count * value_dim, embedding_dim]
  ggml_tensor* attention_output_bias = nullptr;
  ggml_tensor* attention_post_norm = nullptr;     // [embedding_dim]
  ggml_tensor* feed_forward_norm = nullptr;       // [embedding_dim]
  ggml_tensor* gate = nullptr;                    // [embedding_dim, feed_forward_dim]
  ggml_tensor* up = nullptr;                      // [embedding_dim, feed_forward_dim]
  ggml_tensor* down = nullptr;                    // [feed_forward_dim, embedding_dim]
  ggml_tensor* feed_forward_post_norm = nullptr;  // [embedding_dim]
};

class Weights {
 public:
  // Takes the file over. kDataLoss if a tensor the architecture needs is missing or has other
  // dimensions than the shape says (tensor, both sizes named); kUnavailable without memory.
  // `on_progress` (may be empty) is called with the share done, 0..1.
  static Result<std::unique_ptr<Weights>> load(std::unique_ptr<GgufFile> file,
                                               const ModelShape& shape,
                                               const std::function<void(double)>& on_progress);
  ~Weights();

  const std::vector<LayerWeights>& layers() const { return layers_; }
  ggml_tensor* token_embedding() const { return token_embedding_; }  // [embedding_dim, vocabulary]
  ggml_tensor* output_norm() const { return output_norm_; }          // [embedding_dim]
  ggml_tensor* output() const { return output_; }  // the token embedding where the output is tied
  ggml_tensor* rope_factors() const { return rope_factors_; }  // F32 [rope.dimensions / 2] or null
  const GgufFile& file() const { return *file_; }
  std::uint64_t copied_bytes() const;  // memory beyond the mapping
  // The tensor's data will rarely be read again: its memory may go back to the system.
  void release_pages(const ggml_tensor* tensor) const;

 private:
  friend class WeightsLoader;
  struct Storage;  // ggml context and buffers
  explicit Weights(std::unique_ptr<GgufFile> file);

  std::unique_ptr<GgufFile> file_;
  std::unique_ptr<Storage> storage_;
  std::vector<LayerWeights> layers_;
  ggml_tensor* token_embedding_ = nullptr;
  ggml_tensor* output_norm_ = nullptr;
  ggml_tensor* output_ = nullptr;
  ggml_tensor* rope_factors_ = nullptr;
};

}  // namespace refrain::model
