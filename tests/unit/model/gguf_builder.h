// Test support: writes a small GGUF file in memory, with whatever keys and tensors a test wants.
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace refrain::model {

// Bytes one after the other, little-endian.
class ByteWriter {
 public:
  ByteWriter& u32(std::uint32_t value) { return raw(&value, sizeof(value)); }
  ByteWriter& u64(std::uint64_t value) { return raw(&value, sizeof(value)); }
  ByteWriter& text(std::string_view value) {
    u64(value.size());
    return raw(value.data(), value.size());
  }
  ByteWriter& raw(const void* data, std::size_t size) {
    const auto* begin = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), begin, begin + size);
    return *this;
  }
  ByteWriter& pad(std::size_t alignment) {
    while (bytes_.size() % alignment != 0) bytes_.push_back(std::byte{0});
    return *this;
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// A sound file: keys by name, F32 tensors of ones.
class GgufBuilder {
 public:
  GgufBuilder& number(const std::string& key, std::uint32_t value) {
    return add(key, 4, ByteWriter().u32(value).take());
  }
  GgufBuilder& real(const std::string& key, float value) {
    return add(key, 6, ByteWriter().raw(&value, sizeof(value)).take());
  }
  GgufBuilder& flag(const std::string& key, bool value) {
    return add(key, 7, ByteWriter().raw(value ? "\1" : "\0", 1).take());
  }
  GgufBuilder& text(const std::string& key, std::string_view value) {
    return add(key, 8, ByteWriter().text(value).take());
  }
  GgufBuilder& texts(const std::string& key, const std::vector<std::string>& values) {
    ByteWriter out;
    out.u32(8).u64(values.size());
    for (const std::string& value : values) out.text(value);
    return add(key, 9, out.take());
  }
  GgufBuilder& numbers(const std::string& key, const std::vector<std::int32_t>& values) {
    ByteWriter out;
    out.u32(5).u64(values.size()).raw(values.data(), values.size() * 4);
    return add(key, 9, out.take());
  }
  GgufBuilder& reals(const std::string& key, const std::vector<float>& values) {
    ByteWriter out;
    out.u32(6).u64(values.size()).raw(values.data(), values.size() * 4);
    return add(key, 9, out.take());
  }
  GgufBuilder& tensor(const std::string& name, std::vector<std::uint64_t> dims,
                      float value = 1.0F) {
    remove_tensor(name);
    tensors_.push_back({name, std::move(dims), value});
    return *this;
  }
  GgufBuilder& remove_tensor(const std::string& name) {
    std::erase_if(tensors_, [&](const Tensor& tensor) { return tensor.name == name; });
    return *this;
  }
  GgufBuilder& remove(const std::string& key) {
    std::erase_if(keys_, [&](const Key& entry) { return entry.name == key; });
    return *this;
  }

  std::vector<std::byte> build() const {
    ByteWriter out;
    out.raw("GGUF", 4).u32(3).u64(tensors_.size()).u64(keys_.size());
    for (const Key& key : keys_)
      out.text(key.name).u32(key.type).raw(key.value.data(), key.value.size());
    std::uint64_t offset = 0;
    for (const Tensor& tensor : tensors_) {
      out.text(tensor.name).u32(static_cast<std::uint32_t>(tensor.dims.size()));
      for (const std::uint64_t dim : tensor.dims) out.u64(dim);
      out.u32(0).u64(offset);
      offset += (tensor.count() * sizeof(float) + 31) / 32 * 32;
    }
    out.pad(32);
    for (const Tensor& tensor : tensors_) {
      const std::vector<float> values(tensor.count(), tensor.value);
      out.raw(values.data(), values.size() * sizeof(float)).pad(32);
    }
    return out.take();
  }

 private:
  struct Key {
    std::string name;
    std::uint32_t type;
    std::vector<std::byte> value;
  };
  struct Tensor {
    std::string name;
    std::vector<std::uint64_t> dims;
    float value;
    std::uint64_t count() const {
      std::uint64_t product = 1;
      for (const std::uint64_t dim : dims) product *= dim;
      return product;
    }
  };

  GgufBuilder& add(const std::string& key, std::uint32_t type, std::vector<std::byte> value) {
    remove(key);
    keys_.push_back({key, type, std::move(value)});
    return *this;
  }

  std::vector<Key> keys_;
  std::vector<Tensor> tensors_;
};

inline std::vector<std::byte> read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> chars((std::istreambuf_iterator<char>(file)), {});
  std::vector<std::byte> bytes(chars.size());
  std::memcpy(bytes.data(), chars.data(), chars.size());
  return bytes;
}

// The smallest model of an architecture that read_shape() accepts: `layers` layers, dim 8, two
// heads of 4 with one KV head, three tokens.
inline GgufBuilder smallest_model(const std::string& arch, std::uint32_t layers = 1) {
  GgufBuilder out;
  out.text("general.architecture", arch)
      .number(arch + ".block_count", layers)
      .number(arch + ".embedding_length", 8)
      .number(arch + ".feed_forward_length", 16)
      .number(arch + ".context_length", 1024)
      .number(arch + ".attention.head_count", 2)
      .number(arch + ".attention.head_count_kv", 1)
      .real(arch + ".attention.layer_norm_rms_epsilon", 1e-6F)
      .tensor("token_embd.weight", {8, 3})
      .tensor("output_norm.weight", {8});
  for (std::uint32_t i = 0; i < layers; ++i) {
    const std::string prefix = "blk." + std::to_string(i) + ".";
    out.tensor(prefix + "attn_norm.weight", {8})
        .tensor(prefix + "attn_q.weight", {8, 8})
        .tensor(prefix + "attn_k.weight", {8, 4})
        .tensor(prefix + "attn_v.weight", {8, 4})
        .tensor(prefix + "attn_output.weight", {8, 8})
        .tensor(prefix + "ffn_norm.weight", {8})
        .tensor(prefix + "ffn_gate.weight", {8, 16})
        .tensor(prefix + "ffn_up.weight", {8, 16})
        .tensor(prefix + "ffn_down.weight", {16, 8});
    if (arch == "qwen2")
      out.tensor(prefix + "attn_q.bias", {8})
          .tensor(prefix + "attn_k.bias", {4})
          .tensor(prefix + "attn_v.bias", {4});
    if (arch == "qwen3" || arch == "gemma3")
      out.tensor(prefix + "attn_q_norm.weight", {4}).tensor(prefix + "attn_k_norm.weight", {4});
    if (arch == "gemma3")
      out.tensor(prefix + "post_attention_norm.weight", {8})
          .tensor(prefix + "post_ffw_norm.weight", {8});
  }
  return out;
}

}  // namespace refrain::model
