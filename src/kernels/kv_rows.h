// Writing, copying, moving and reading rows of keys and values in the layout of kv_layout.h. Plain
// functions on memory the caller owns; different rows may be written by different threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/kv_layout.h"
#include "kernels/row_ops.h"

namespace refrain::kernels {

// The remainders of one row's values, spread as these are: float16 [kv_head_count][value_columns],
// and how many numbers further on those of the next layer lie.
struct RemainderRow {
  std::uint16_t* at = nullptr;
  std::size_t layer_stride = 0;
  std::uint16_t* of(std::uint32_t layer) const { return at + layer * layer_stride; }
};

// Writes rows [0, count): row i of `keys` [count][kv_head_count][key_dim] and of `values`
// [count][kv_head_count][value_dim] to slots[i] of `kv`, the bytes of layer `layer`. What a slot
// then holds depends on its row alone, whatever the instruction set. Where the layout keeps
// remainders, those of row i go to remainders[i]; else `remainders` is not looked at. CpuKernels
// has the kernels.
using StoreKernel = void(const KvLayout& layout, std::byte* kv, std::uint32_t layer,
                         const std::int64_t* slots, std::size_t count, const float* keys,
                         const float* values, const RemainderRow* remainders);

// Copies the first `count` tokens of tiles from `from_tile` on, all heads, to `to_tile` on. The
// tokens behind them in the last tile stay as they are.
void copy_kv_rows(const KvLayout& layout, std::byte* layer, std::size_t from_tile,
                  std::size_t to_tile, std::uint32_t count);

// Turns the keys of all 16 tokens of `tile` by `rotation`, which need not be that of their own
// positions, into `turned` [key_tile_bytes]; both aligned as tiles are. `scratch`: floats
// [key_groups * 4][16]. What a token's place in `turned` then holds is what StoreKernel would write
// for its turned key; CpuKernels has the kernels, with the same bytes.
using TurnKernel = void(const KvLayout& layout, const std::byte* tile, const Rotation& rotation,
                        std::byte* turned, float* scratch);

// How to turn keys on the way: `turned` has room for a key tile, `scratch` for what the kernel
// needs.
struct KeyTurn {
  TurnKernel* kernel = nullptr;
  Rotation rotation;
  std::byte* turned = nullptr;
  float* scratch = nullptr;
};

// Moves rows of slots [from, from + count), all heads, to slots [to, to + count), which are others.
// Values are copied, and so are keys if `turn` is null. Slots beside the moved ones stay as they
// are.
void move_kv_rows(const KvLayout& layout, std::byte* layer, std::size_t from, std::size_t to,
                  std::size_t count, const KeyTurn* turn);

// The rows of one head and slots from[i], at most 16, become the first ones of a tile: one whose
// keys and values lie at `keys` and `values`, and hold no row that is still to be copied.
void gather_kv_rows(const KvLayout& layout, const std::byte* layer, std::uint32_t head,
                    std::span<const std::size_t> from, std::byte* keys, std::byte* values);

// One slot of one head as it is stored, spread or not: key [key_dim] and value [value_dim]; either
// may be null.
void load_stored_kv_row(const KvLayout& layout, const std::byte* layer, std::uint32_t head,
                        std::size_t slot, float* key, float* value);

// The same as the key and value that it stands for.
void load_kv_row(const KvLayout& layout, const std::byte* layer, std::uint32_t head,
                 std::size_t slot, float* key, float* value);

}  // namespace refrain::kernels
