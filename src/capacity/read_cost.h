// ReadCost: the bytes that decoding reads from memory (REQUIREMENTS B1): the weights once for each
// step, and for each sequence in it the keys and values of its context. Layers with a sliding
// window read no more than the window, although the arena keeps all of the context for them, too.
// Plain data; any thread.
//
//   step of sequences with 100 and 4,000 tokens:  weight_bytes + kv_bytes(100) + kv_bytes(4000)
#pragma once

#include <algorithm>
#include <cstdint>

namespace refrain::capacity {

struct ReadCost {
  std::uint64_t weight_bytes = 0;           // of a step, however many sequences are in it
  std::uint64_t kv_bytes_per_token = 0;     // of all layers, as the arena keeps them
  std::uint64_t local_bytes_per_token = 0;  // of these, in layers with a window
  std::uint32_t window_tokens = 0;

  // What decoding one token reads behind a context of `tokens`, its own included.
  std::uint64_t kv_bytes(std::uint64_t tokens) const {
    const std::uint64_t in_window = std::min<std::uint64_t>(tokens, window_tokens);
    return (kv_bytes_per_token - local_bytes_per_token) * tokens +
           local_bytes_per_token * in_window;
  }
};

}  // namespace refrain::capacity
