// One anonymous mapping for the K/V of all layers. Untouched pages cost nothing, so that a large
// budget is paid only as it is used. Engine thread.
#include "model/kv_arena.h"

#include <utility>

#include "base/check.h"
#include "kernels/kv_rows.h"

namespace refrain::model {
namespace {

constexpr std::size_t kLayerAlignment = 64;

kernels::KvLayout layout_of(const ModelShape& shape, KvFormat format, std::size_t tile_count) {
  return kernels::make_kv_layout(format, shape.kv_head_count, shape.key_dim, shape.value_dim,
                                 tile_count);
}

}  // namespace

std::uint64_t kv_bytes_per_token(const ModelShape& shape, KvFormat format) {
  return std::uint64_t{kernels::kv_bytes_per_token(layout_of(shape, format, 1))} *
         shape.layer_count;
}

double kv_bits_per_value(const ModelShape& shape, KvFormat format) {
  return kernels::kv_bits_per_value(layout_of(shape, format, 1));
}

KvArena::~KvArena() = default;

Result<std::unique_ptr<KvArena>> KvArena::create(const ModelShape& shape, KvFormat format,
                                                 std::uint32_t block_size,
                                                 std::uint32_t block_count) {
  CHECK(block_size > 0 && block_size % kernels::kTileTokens == 0,
        "block_size is not a multiple of 16");
  CHECK(block_count > 0, "an arena without blocks");
  std::unique_ptr<KvArena> made(new KvArena);
  made->block_size_ = block_size;
  made->block_count_ = block_count;
  made->layer_count_ = shape.layer_count;
  made->layout_ =
      layout_of(shape, format, std::size_t{block_size} / kernels::kTileTokens * block_count);
  made->layer_stride_ =
      (made->layout_.layer_bytes + kLayerAlignment - 1) / kLayerAlignment * kLayerAlignment;
  ASSIGN_OR_RETURN(made->memory_,
                   PageMemory::map(made->layer_stride_ * shape.layer_count, "the KV cache",
                                   "lower the KV budget or the maximum context"));
  return made;
}

void KvArena::copy_rows(const kv::BlockCopy& copy) {
  const std::size_t from = to_int(copy.from), to = to_int(copy.to);
  CHECK(from < block_count_ && to < block_count_ && from != to && copy.row_count <= block_size_,
        "copy outside the arena");
  const std::size_t tiles = block_size_ / kernels::kTileTokens;
  for (std::uint32_t index = 0; index < layer_count_; ++index) {
    kernels::copy_kv_rows(layout_, layer(index), from * tiles, to * tiles, copy.row_count);
  }
}

kernels::TilePlace KvArena::tile(std::uint32_t layer, std::uint32_t head, std::size_t index) const {
  CHECK(layer < layer_count_ && head < layout_.kv_head_count && index < layout_.tile_count,
        "tile outside the arena");
  const std::size_t head_at = layer * layer_stride_ + head * layout_.head_bytes;
  return {head_at + index * layout_.key_tile_bytes,
          head_at + layout_.values_at + index * layout_.value_tile_bytes};
}

void KvArena::gather(std::uint32_t layer, std::uint32_t head, std::span<const std::size_t> from,
                     const kernels::TilePlace& to) {
  const std::size_t slots = std::size_t{block_size_} * block_count_;
  CHECK(layer < layer_count_ && head < layout_.kv_head_count && from.size() <= kernels::kTileTokens,
        "gathering outside the arena");
  for (const std::size_t slot : from) CHECK(slot < slots, "gathering from outside the arena");
  kernels::gather_kv_rows(layout_, this->layer(layer), head, from, memory_.data() + to.keys,
                          memory_.data() + to.values);
}

void KvArena::read_row(std::uint32_t layer, std::uint32_t head, std::size_t slot, float* key,
                       float* value) const {
  CHECK(layer < layer_count_ && head < layout_.kv_head_count &&
            slot < std::size_t{block_size_} * block_count_,
        "row outside the arena");
  const auto* at = memory_.data() + layer * layer_stride_;
  kernels::load_kv_row(layout_, at, head, slot, key, value);
}

void KvArena::swap(KvArena& other) {
  CHECK(block_size_ == other.block_size_ && layer_count_ == other.layer_count_,
        "arenas of other models");
  std::swap(memory_, other.memory_);
  std::swap(layout_, other.layout_);
  std::swap(layer_stride_, other.layer_stride_);
  std::swap(block_count_, other.block_count_);
}

KvFormat KvArena::format() const {
  return layout_.format;
}
std::uint32_t KvArena::block_size() const {
  return block_size_;
}
std::uint32_t KvArena::block_count() const {
  return block_count_;
}
std::uint64_t KvArena::bytes() const {
  return memory_.bytes();
}
const kernels::KvLayout& KvArena::layout() const {
  return layout_;
}
std::byte* KvArena::layer(std::uint32_t index) {
  return memory_.data() + index * layer_stride_;
}

}  // namespace refrain::model
