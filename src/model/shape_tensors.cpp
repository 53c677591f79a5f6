// Tensors against the shape. Runs on the loading thread.
#include "model/shape_tensors.h"

#include <algorithm>
#include <unordered_set>

#include "base/str.h"
#include "model/gguf_check.h"

namespace refrain::model {
namespace {

constexpr int kF32 = 0;

std::string list_dims(const std::vector<std::uint64_t>& dims) {
  std::string text = "[";
  for (const std::uint64_t dim : dims) text += (text.size() > 1 ? ", " : "") + std::to_string(dim);
  return text + "]";
}

std::vector<std::uint64_t> dims_of(const TensorInfo& tensor) {
  std::vector<std::uint64_t> dims(tensor.dims.begin(), tensor.dims.end());
  while (dims.size() > 1 && dims.back() == 1) dims.pop_back();
  return dims;
}

struct Expected {
  std::string name;
  std::vector<std::uint64_t> dims;
  TensorUse use = TensorUse::kMatrix;
};

// The tensors of one layer, names without the `blk.N.` in front.
std::vector<Expected> layer_tensors(const ModelShape& shape) {
  const std::uint64_t dim = shape.embedding_dim;
  const std::uint64_t query = std::uint64_t{shape.head_count} * shape.key_dim;
  const std::uint64_t key = std::uint64_t{shape.kv_head_count} * shape.key_dim;
  const std::uint64_t value = std::uint64_t{shape.kv_head_count} * shape.value_dim;
  const std::uint64_t joined = std::uint64_t{shape.head_count} * shape.value_dim;
  std::vector<Expected> list = {
      {"attn_norm.weight", {dim}, TensorUse::kPlain},
      {"attn_q.weight", {dim, query}},
      {"attn_k.weight", {dim, key}},
      {"attn_v.weight", {dim, value}},
      {"attn_output.weight", {joined, dim}},
      {"ffn_norm.weight", {dim}, TensorUse::kPlain},
      {"ffn_gate.weight", {dim, shape.feed_forward_dim}},
      {"ffn_up.weight", {dim, shape.feed_forward_dim}},
      {"ffn_down.weight", {shape.feed_forward_dim, dim}},
  };
  if (shape.qkv_bias) {
    list.push_back({"attn_q.bias", {query}, TensorUse::kPlain});
    list.push_back({"attn_k.bias", {key}, TensorUse::kPlain});
    list.push_back({"attn_v.bias", {value}, TensorUse::kPlain});
  }
  if (shape.qk_norm) {
    list.push_back({"attn_q_norm.weight", {shape.key_dim}, TensorUse::kPlain});
    list.push_back({"attn_k_norm.weight", {shape.key_dim}, TensorUse::kPlain});
  }
  if (shape.post_norms) {
    list.push_back({"post_attention_norm.weight", {dim}, TensorUse::kPlain});
    list.push_back({"post_ffw_norm.weight", {dim}, TensorUse::kPlain});
  }
  return list;
}

}  // namespace

Error tensor_error(const GgufFile& file, std::string_view name, std::string_view what) {
  const std::string field = str_cat("tensor ", printable(name));
  return Error{Code::kDataLoss, str_cat("`", to_valid_utf8(file.path()), "`: ", field, ": ", what),
               "the file is incomplete or its metadata belongs to another model", field};
}

Result<void> check_tensor(const GgufFile& file, std::string_view name,
                          const std::vector<std::uint64_t>& dims, TensorUse use) {
  const TensorInfo* tensor = file.find_tensor(name);
  if (tensor == nullptr) return tensor_error(file, name, "is missing");
  const std::vector<std::uint64_t> actual = dims_of(*tensor);
  if (actual != dims)
    return tensor_error(
        file, name, str_cat("has dimensions ", list_dims(actual), ", must have ", list_dims(dims)));
  if (use == TensorUse::kPlain && tensor->type != kF32)
    return tensor_error(file, name, str_cat("has type ", tensor->type_name, ", must have F32"));
  return {};
}

Result<void> read_tensor_facts(const GgufFile& file, ModelShape& shape) {
  const TensorInfo* embedding = file.find_tensor("token_embd.weight");
  if (embedding == nullptr) return tensor_error(file, "token_embd.weight", "is missing");
  constexpr std::uint64_t kTokensMax = 1U << 22U;
  if (embedding->dims[1] > kTokensMax)
    return tensor_error(file, embedding->name, str_cat("more than ", kTokensMax, " tokens"));
  shape.vocabulary_size = static_cast<std::uint32_t>(embedding->dims[1]);
  shape.tied_output = file.find_tensor("output.weight") == nullptr;
  // Qwen2 has them by definition; some of the Llama family bring them along.
  shape.qkv_bias = shape.architecture == Architecture::kQwen2 ||
                   file.find_tensor("blk.0.attn_q.bias") != nullptr;
  for (const TensorInfo& tensor : file.tensors()) {
    // Products fit: check_gguf() has seen that the bytes do, and a byte holds at most 8 values.
    shape.parameter_count += tensor.dims[0] * tensor.dims[1] * tensor.dims[2] * tensor.dims[3];
    shape.weight_bytes += tensor.byte_count;
  }
  shape.embedding_bytes = embedding->byte_count;
  return {};
}

Result<void> check_tensors(const GgufFile& file, const ModelShape& shape) {
  const std::uint64_t dim = shape.embedding_dim;
  std::unordered_set<std::string> known = {"token_embd.weight", "output_norm.weight",
                                           "rope_freqs.weight"};
  RETURN_IF_ERROR(
      check_tensor(file, "token_embd.weight", {dim, shape.vocabulary_size}, TensorUse::kMatrix));
  RETURN_IF_ERROR(check_tensor(file, "output_norm.weight", {dim}, TensorUse::kPlain));
  if (!shape.tied_output) {
    known.insert("output.weight");
    RETURN_IF_ERROR(
        check_tensor(file, "output.weight", {dim, shape.vocabulary_size}, TensorUse::kMatrix));
  }
  const std::vector<Expected> layer = layer_tensors(shape);
  for (std::uint32_t i = 0; i < shape.layer_count; ++i) {
    const std::string prefix = str_cat("blk.", i, ".");
    for (const Expected& expected : layer) {
      const std::string name = prefix + expected.name;
      RETURN_IF_ERROR(check_tensor(file, name, expected.dims, expected.use));
      known.insert(name);
    }
    // Used where it is there.
    const std::string output_bias = prefix + "attn_output.bias";
    if (file.find_tensor(output_bias) != nullptr)
      RETURN_IF_ERROR(check_tensor(file, output_bias, {dim}, TensorUse::kPlain));
    known.insert(output_bias);
  }
  for (const TensorInfo& tensor : file.tensors()) {
    if (known.contains(tensor.name)) continue;
    Error error = tensor_error(file, tensor.name,
                               str_cat("a ", shape.architecture_name, " of ", shape.layer_count,
                                       " layers has no such tensor"));
    error.code = Code::kUnsupported;
    error.hint = "this variant of the architecture is not supported";
    return error;
  }
  return {};
}

}  // namespace refrain::model
