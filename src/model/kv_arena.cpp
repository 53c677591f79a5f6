// One anonymous mapping for the K/V of all layers. Untouched pages cost nothing, so that a large
// budget is paid only as it is used. Engine thread.
#include "model/kv_arena.h"

#include <sys/mman.h>

#include <cstring>

#include "base/check.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "model/kv_arena_impl.h"

namespace refrain::model {
namespace {

constexpr std::size_t kRowAlignment = 64;  // of each layer's side within the mapping

std::size_t value_bytes(KvFormat format) {
  CHECK(format == KvFormat::kF16, "unknown KV format");
  return 2;
}

std::size_t side_bytes(std::size_t row_values, std::size_t slots, KvFormat format) {
  const std::size_t bytes = row_values * slots * value_bytes(format);
  return (bytes + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
}

void copy_tensor_rows(ggml_tensor* tensor, std::size_t from, std::size_t to, std::size_t count) {
  auto* data = static_cast<std::byte*>(tensor->data);
  std::memcpy(data + to * tensor->nb[1], data + from * tensor->nb[1], count * tensor->nb[1]);
}

}  // namespace

std::uint64_t kv_bytes_per_token(const ModelShape& shape, KvFormat format) {
  const std::uint64_t row = std::uint64_t{shape.kv_head_count} * (shape.key_dim + shape.value_dim);
  return row * shape.layer_count * value_bytes(format);
}

KvArena::Impl::~Impl() {
  ggml_backend_buffer_free(buffer_);
  ggml_free(context_);
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

KvArena::KvArena(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
KvArena::~KvArena() = default;

Result<std::unique_ptr<KvArena>> KvArena::create(const ModelShape& shape, KvFormat format,
                                                 std::uint32_t block_size,
                                                 std::uint32_t block_count) {
  CHECK(block_size > 0 && block_size % 16 == 0, "block_size is not a multiple of 16");
  CHECK(block_count > 0, "an arena without blocks");
  auto impl = std::make_unique<Impl>();
  impl->format_ = format;
  impl->block_size_ = block_size;
  impl->block_count_ = block_count;
  const std::size_t slots = std::size_t{block_size} * block_count;
  const std::size_t key_row = std::size_t{shape.kv_head_count} * shape.key_dim;
  const std::size_t value_row = std::size_t{shape.kv_head_count} * shape.value_dim;
  const std::size_t key_bytes = side_bytes(key_row, slots, format);
  const std::size_t value_side_bytes = side_bytes(value_row, slots, format);
  impl->bytes_ = (key_bytes + value_side_bytes) * shape.layer_count;

  void* memory =
      mmap(nullptr, impl->bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return Error{Code::kUnavailable,
                 "cannot get " + std::to_string(impl->bytes_) + " bytes for the KV cache",
                 "lower the KV budget or the maximum context"};
  }
  impl->memory_ = memory;
  madvise(memory, impl->bytes_, MADV_HUGEPAGE);  // fewer TLB misses; a hint only

  impl->context_ = ggml_init({ggml_tensor_overhead() * 2 * shape.layer_count, nullptr, true});
  impl->buffer_ = ggml_backend_cpu_buffer_from_ptr(memory, impl->bytes_);
  if (impl->context_ == nullptr || impl->buffer_ == nullptr) {
    return Error{Code::kUnavailable, "cannot get memory for the KV cache's headers"};
  }
  auto* next = static_cast<std::byte*>(memory);
  const auto place = [&](std::size_t row_values, std::size_t bytes) {
    ggml_tensor* tensor =
        ggml_new_tensor_2d(impl->context_, GGML_TYPE_F16, static_cast<std::int64_t>(row_values),
                           static_cast<std::int64_t>(slots));
    CHECK(ggml_backend_tensor_alloc(impl->buffer_, tensor, next) == GGML_STATUS_SUCCESS,
          "a layer does not fit the arena");
    next += bytes;
    return tensor;
  };
  for (std::uint32_t layer = 0; layer < shape.layer_count; ++layer) {
    ggml_tensor* keys = place(key_row, key_bytes);
    impl->layers_.push_back({keys, place(value_row, value_side_bytes)});
  }
  return std::unique_ptr<KvArena>(new KvArena(std::move(impl)));
}

void KvArena::copy_rows(const kv::BlockCopy& copy) {
  const std::size_t from = to_int(copy.from), to = to_int(copy.to);
  CHECK(from < impl_->block_count_ && to < impl_->block_count_ && from != to &&
            copy.row_count <= impl_->block_size_,
        "copy outside the arena");
  for (const Impl::Layer& layer : impl_->layers_) {
    for (ggml_tensor* side : {layer.keys, layer.values}) {
      copy_tensor_rows(side, from * impl_->block_size_, to * impl_->block_size_, copy.row_count);
    }
  }
}

KvFormat KvArena::format() const {
  return impl_->format_;
}
std::uint32_t KvArena::block_size() const {
  return impl_->block_size_;
}
std::uint32_t KvArena::block_count() const {
  return impl_->block_count_;
}
std::uint64_t KvArena::bytes() const {
  return impl_->bytes_;
}

}  // namespace refrain::model
