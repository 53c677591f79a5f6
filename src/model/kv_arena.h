// KvArena: the bytes of all KV blocks, one allocation made at start; nothing grows later. Who holds
// which block is the ledger's business (kv/). Owned by the engine thread.
//
// The layout of a layer's keys and values is kernels/kv_layout.h; layers follow each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/ids.h"
#include "base/page_memory.h"
#include "base/result.h"
#include "kernels/kv_layout.h"
#include "kernels/paged_attention.h"
#include "kv/ledger.h"
#include "model/shape.h"

namespace refrain::model {

using kernels::KvFormat;

// Bytes of one token over all layers, scales and padding of the format included; dims of keys are
// padded to a multiple of 4 (4 bits: 8), of values to one of 16 (4 bits: 32):
//   f16     layers x kv heads x 2 x (key dim + value dim)
//   q8      layers x kv heads x (key dim + value dim + 8)
//   q8/q4   layers x kv heads x (key dim + value dim / 2 + 8)
//   q4      layers x kv heads x ((key dim + value dim) / 2 + 8)
std::uint64_t kv_bytes_per_token(const ModelShape& shape, KvFormat format);

// The same, for one number of a key or value: 16 for f16, 8.5 for q8 and heads of 64 dims.
double kv_bits_per_value(const ModelShape& shape, KvFormat format);

class KvArena {
 public:
  // kUnavailable if the memory cannot be had. Memory is zeroed lazily by the system.
  static Result<std::unique_ptr<KvArena>> create(const ModelShape& shape, KvFormat format,
                                                 std::uint32_t block_size,
                                                 std::uint32_t block_count);
  KvArena(const KvArena&) = delete;
  KvArena& operator=(const KvArena&) = delete;
  ~KvArena();

  // Copies rows [0, row_count) of block `from` to block `to` in all layers.
  void copy_rows(const kv::BlockCopy& copy);

  // Where 16 slots of a layer and KV head lie. All are alike, so that one may hold rows of another
  // layer and head (head_view.h).
  kernels::TilePlace tile(std::uint32_t layer, std::uint32_t head, std::size_t index) const;

  // For one layer and KV head: the rows of slots from[i], at most 16, fill a tile from its
  // beginning, in order, bit for bit.
  void gather(std::uint32_t layer, std::uint32_t head, std::span<const std::size_t> from,
              const kernels::TilePlace& to);

  // One slot of a layer and KV head as floats: key [key_dim] and value [value_dim]; either may be
  // null.
  void read_row(std::uint32_t layer, std::uint32_t head, std::size_t slot, float* key,
                float* value) const;

  // Takes over what `other` holds and gives up its own; executors that hold this arena see the
  // other's rows from then on. Both have blocks of one size.
  void swap(KvArena& other);

  KvFormat format() const;
  std::uint32_t block_size() const;
  std::uint32_t block_count() const;
  std::uint64_t bytes() const;

  // For executors in model/: where a layer's keys and values lie, and how.
  const kernels::KvLayout& layout() const;
  std::byte* layer(std::uint32_t index);

 private:
  KvArena() = default;

  PageMemory memory_;
  kernels::KvLayout layout_;
  std::size_t layer_stride_ = 0;  // bytes
  std::uint32_t layer_count_ = 0;
  std::uint32_t block_size_ = 0;
  std::uint32_t block_count_ = 0;
};

}  // namespace refrain::model
