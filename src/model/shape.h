// ModelShape: the numbers that define a model's computation, read from GGUF metadata and checked
// against the tensors. Plain data; immutable after load; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"

namespace refrain::model {

enum class Architecture { kLlama, kQwen2, kQwen3, kGemma3 };  // kLlama: Llama, Mistral, SmolLM2

enum class RopeScaling { kNone, kLinear, kYarn, kLlama3 };

enum class RopeLayout { kInterleaved, kHalves };  // pairs (2i, 2i+1) | (i, i + n_rot/2)

struct RopeSettings {
  RopeLayout layout = RopeLayout::kInterleaved;
  std::uint32_t dimensions = 0;      // rotated dims of each head; <= head_dim
  float base = 10000.0F;
  float base_local = 10000.0F;       // sliding-window layers (Gemma 3); == base elsewhere
  RopeScaling scaling = RopeScaling::kNone;
  float factor = 1.0F;
  std::uint32_t original_context = 0;
  float attention_factor = 1.0F;     // multiplies YaRN's own magnitude, 1 + 0.1 ln(factor)
  float beta_fast = 32.0F, beta_slow = 1.0F;
  std::vector<float> frequency_factors;  // rope_freqs.weight, [dimensions / 2]; empty = none
};

struct ModelShape {
  Architecture architecture = Architecture::kLlama;
  std::string architecture_name;     // general.architecture
  std::string name;                  // general.name
  std::uint32_t layer_count = 0;
  std::uint32_t embedding_dim = 0;
  std::uint32_t feed_forward_dim = 0;
  std::uint32_t head_count = 0;      // query heads
  std::uint32_t kv_head_count = 0;
  std::uint32_t key_dim = 0;         // per head
  std::uint32_t value_dim = 0;       // per head
  std::uint32_t vocabulary_size = 0;
  std::uint32_t context_length = 0;  // the model's trained maximum
  std::uint32_t sliding_window = 0;  // 0 = none
  // Gemma 3: every 6th layer is global. 0: all layers alike, windowed if there is a window (Mistral).
  std::uint32_t global_layer_period = 0;
  float norm_epsilon = 1e-5F;
  float attention_scale = 0.0F;      // 1/sqrt(key_dim) unless the model says otherwise
  float embedding_scale = 1.0F;      // sqrt(embedding_dim) for Gemma
  float logit_softcap = 0.0F;        // 0 = none
  bool qk_norm = false;              // Qwen3, Gemma 3
  bool qkv_bias = false;             // Qwen2
  bool post_norms = false;           // Gemma 3
  bool gelu = false;                 // GeGLU instead of SwiGLU
  bool tied_output = false;          // output matrix = token embedding
  std::uint64_t parameter_count = 0;
  std::uint64_t weight_bytes = 0;    // tensor data in the file
  std::uint64_t embedding_bytes = 0; // of these, the token embedding
  RopeSettings rope;

  // Layers whose attention reads no more than the window.
  std::uint32_t windowed_layer_count() const {
    if (sliding_window == 0) return 0;
    return global_layer_period == 0 ? layer_count : layer_count - layer_count / global_layer_period;
  }
  bool is_local_layer(std::uint32_t layer) const {
    return sliding_window > 0 && global_layer_period > 0 && (layer + 1) % global_layer_period != 0;
  }
};

}  // namespace refrain::model
