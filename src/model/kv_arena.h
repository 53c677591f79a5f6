// KvArena: the bytes of all KV blocks, one allocation made at start; nothing grows later. Who holds
// which block is the ledger's business (kv/). Owned by the engine thread.
//
//   per layer and KV side (K, V):  rows of kv_head_count * head_dim values, row index = slot
#pragma once

#include <cstdint>
#include <memory>

#include "base/ids.h"
#include "base/result.h"
#include "kv/ledger.h"
#include "model/shape.h"

namespace refrain::model {

enum class KvFormat { kF16 };  // later: kQ8, ...

// Bytes of one token over all layers: 2 sides x layers x kv heads x head dim x bytes per value.
std::uint64_t kv_bytes_per_token(const ModelShape& shape, KvFormat format);

class KvArena {
 public:
  // kUnavailable if the memory cannot be had. Memory is zeroed lazily by the system.
  static Result<std::unique_ptr<KvArena>> create(const ModelShape& shape, KvFormat format,
                                                 std::uint32_t block_size, std::uint32_t block_count);
  ~KvArena();

  // Copies rows [0, row_count) of block `from` to block `to` in all layers.
  void copy_rows(const kv::BlockCopy& copy);

  KvFormat format() const;
  std::uint32_t block_size() const;
  std::uint32_t block_count() const;
  std::uint64_t bytes() const;

  class Impl;
  Impl& impl() { return *impl_; }   // for executors in model/

 private:
  explicit KvArena(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace refrain::model
