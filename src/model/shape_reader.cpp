// Metadata -> ModelShape. The tensors are checked in shape_tensors.cpp.
#include "model/shape_reader.h"

#include <array>
#include <cmath>
#include <cstring>

#include "base/str.h"
#include "model/gguf_check.h"
#include "model/metadata_reader.h"
#include "model/shape_tensors.h"

namespace refrain::model {
namespace {

struct ArchitectureName {
  std::string_view name;
  Architecture architecture;
};
constexpr std::array<ArchitectureName, 4> kArchitectures = {{
    {"llama", Architecture::kLlama},  // Llama, Mistral, SmolLM2
    {"qwen2", Architecture::kQwen2},
    {"qwen3", Architecture::kQwen3},
    {"gemma3", Architecture::kGemma3},
}};

// Keys that change the computation in a way that we have not built: a file with one of them (not
// 0) would run and answer wrongly.
constexpr std::array<std::string_view, 8> kForeignKeys = {"expert_count",
                                                          "attn_logit_softcapping",
                                                          "logit_scale",
                                                          "residual_scale",
                                                          "embedding_scale",
                                                          "attention.clamp_kqv",
                                                          "attention.max_alibi_bias",
                                                          "pooling_type"};

// Gemma 3 27B, told by its layer count, scales scores by 1/sqrt(embedding_dim / head_count); all
// other sizes by 1/sqrt(key_dim).
constexpr std::uint32_t kGemma27bLayers = 62;
constexpr std::uint32_t kGemmaPeriod = 6;
constexpr float kGemmaLocalBase = 10000.0F;

Result<ArchitectureName> read_architecture(const GgufFile& file) {
  const auto error = [&](Code code, std::string_view what, std::string hint) {
    return Error{code, str_cat("`", to_valid_utf8(file.path()), "`: general.architecture: ", what),
                 std::move(hint), "general.architecture"};
  };
  ASSIGN_OR_RETURN(const auto name, file.get_text("general.architecture"));
  if (!name) return error(Code::kInvalidArgument, "is missing", "this may be no model file");
  for (const ArchitectureName& known : kArchitectures)
    if (known.name == *name) return known;
  return error(Code::kUnsupported,
               str_cat("architecture `", printable(*name), "` is not supported"),
               str_cat("supported architectures are ", supported_architectures()));
}

class ShapeReader {
 public:
  ShapeReader(const GgufFile& file, const ArchitectureName& architecture)
      : file_(file), reader_(file, std::string(architecture.name)) {
    shape_.architecture = architecture.architecture;
    shape_.architecture_name = architecture.name;
  }

  Result<ModelShape> read() {
    RETURN_IF_ERROR(refuse_foreign());
    RETURN_IF_ERROR(read_sizes());
    RETURN_IF_ERROR(read_heads());
    RETURN_IF_ERROR(read_window());
    RETURN_IF_ERROR(read_rope());
    RETURN_IF_ERROR(read_scaling());
    RETURN_IF_ERROR(read_numerics());
    RETURN_IF_ERROR(read_tensor_facts(file_, shape_));
    RETURN_IF_ERROR(check_tensors(file_, shape_));
    return std::move(shape_);
  }

 private:
  bool is_gemma() const { return shape_.architecture == Architecture::kGemma3; }

  Result<void> refuse_foreign() const {
    for (const std::string_view key : kForeignKeys) {
      if (reader_.has(key))
        return reader_.unsupported(key, "models that use this are not supported",
                                   "use a plain model of this family");
    }
    ASSIGN_OR_RETURN(const bool causal, reader_.flag("attention.causal", true));
    if (!causal)
      return reader_.unsupported("attention.causal",
                                 "tokens of this model see later ones, so no context of it can be "
                                 "reused; embedding models are not supported",
                                 "use a generating model");
    ASSIGN_OR_RETURN(const auto parts, file_.get_uint("split.count"));
    if (parts.value_or(1) > 1) {
      return Error{Code::kUnsupported,
                   str_cat("`", to_valid_utf8(file_.path()), "`: split.count: this is one of ",
                           *parts, " parts of a split model"),
                   "join the parts into one file first", "split.count"};
    }
    return {};
  }

  Result<void> read_sizes() {
    ASSIGN_OR_RETURN(const auto name, file_.get_text("general.name"));
    shape_.name = printable(name.value_or(""));
    ASSIGN_OR_RETURN(shape_.layer_count, reader_.number("block_count", {1, 1024}));
    ASSIGN_OR_RETURN(shape_.embedding_dim, reader_.number("embedding_length", {1, 1U << 16U}));
    ASSIGN_OR_RETURN(shape_.feed_forward_dim,
                     reader_.number("feed_forward_length", {1, 1U << 20U}));
    ASSIGN_OR_RETURN(shape_.context_length, reader_.number("context_length", {1, 1U << 24U}));
    return {};
  }

  Result<void> read_heads() {
    ASSIGN_OR_RETURN(shape_.head_count, reader_.number("attention.head_count", {1, 1024}));
    ASSIGN_OR_RETURN(
        shape_.kv_head_count,
        reader_.number("attention.head_count_kv", {1, shape_.head_count}, shape_.head_count));
    if (shape_.head_count % shape_.kv_head_count != 0)
      return reader_.invalid(
          "attention.head_count_kv",
          str_cat(shape_.kv_head_count, " does not divide the ", shape_.head_count, " heads"));
    std::optional<std::uint32_t> split;
    if (shape_.embedding_dim % shape_.head_count == 0)
      split = shape_.embedding_dim / shape_.head_count;
    if (!split && !reader_.has("attention.key_length"))
      return reader_.invalid("attention.head_count",
                             str_cat(shape_.head_count, " heads do not divide ",
                                     shape_.embedding_dim, " and no key_length is given"));
    ASSIGN_OR_RETURN(shape_.key_dim, reader_.number("attention.key_length", {2, 1024}, split));
    ASSIGN_OR_RETURN(shape_.value_dim, reader_.number("attention.value_length", {1, 1024},
                                                      split.value_or(shape_.key_dim)));
    return {};
  }

  // Gemma 3: local and global layers take turns. Llama family: a window holds for all layers
  // (Mistral 7B 0.1); none if it covers the context anyway.
  Result<void> read_window() {
    constexpr std::string_view kKey = "attention.sliding_window";
    ASSIGN_OR_RETURN(std::uint32_t window, reader_.number(kKey, {0, 1U << 24U}, 0));
    // Gemma's local layers stay local however wide the window: their rotary base differs.
    if (window >= shape_.context_length && !is_gemma()) window = 0;
    if (window == 0) return {};
    shape_.sliding_window = window;
    if (is_gemma()) {
      ASSIGN_OR_RETURN(shape_.global_layer_period,
                       reader_.number("attention.sliding_window_pattern", {1, 1024}, kGemmaPeriod));
    } else if (shape_.architecture != Architecture::kLlama) {
      return reader_.unsupported(kKey, "a window over some layers of this architecture",
                                 "use a model without `use_sliding_window`");
    }
    return {};
  }

  Result<void> read_rope() {
    RopeSettings& rope = shape_.rope;
    rope.layout = shape_.architecture == Architecture::kLlama ? RopeLayout::kInterleaved
                                                              : RopeLayout::kHalves;
    ASSIGN_OR_RETURN(rope.dimensions,
                     reader_.number("rope.dimension_count", {2, shape_.key_dim}, shape_.key_dim));
    if (rope.dimensions % 2 != 0)
      return reader_.invalid("rope.dimension_count", str_cat(rope.dimensions, " is odd"));
    constexpr RealRange kBases = {1.0, 1e12};
    ASSIGN_OR_RETURN(rope.base, reader_.real("rope.freq_base", kBases, 10000.0F));
    ASSIGN_OR_RETURN(rope.base_local, reader_.real("rope.freq_base_swa", kBases,
                                                   is_gemma() ? kGemmaLocalBase : rope.base));
    return {};
  }

  Result<void> read_scaling() {
    RopeSettings& rope = shape_.rope;
    constexpr RealRange kFactors = {1e-3, 1e4};
    ASSIGN_OR_RETURN(const float old_factor, reader_.real("rope.scale_linear", kFactors, 1.0F));
    ASSIGN_OR_RETURN(const std::string type,
                     reader_.text("rope.scaling.type", old_factor == 1.0F ? "none" : "linear"));
    if (type == "linear") {
      ASSIGN_OR_RETURN(rope.factor, reader_.real("rope.scaling.factor", kFactors, old_factor));
      if (rope.factor != 1.0F) rope.scaling = RopeScaling::kLinear;
    } else if (type == "yarn") {
      RETURN_IF_ERROR(read_yarn(kFactors));
    } else if (type != "none" && type != "llama3" && !type.empty()) {
      return reader_.unsupported("rope.scaling.type",
                                 str_cat("rope scaling `", printable(type), "` is not supported"),
                                 "supported are none, linear, yarn and llama3");
    }
    ASSIGN_OR_RETURN(rope.frequency_factors, read_frequency_factors());
    if (type == "llama3" && rope.frequency_factors.empty())
      return reader_.invalid("rope.scaling.type", "llama3 needs the tensor rope_freqs.weight");
    if (rope.scaling == RopeScaling::kNone && !rope.frequency_factors.empty())
      rope.scaling = RopeScaling::kLlama3;
    return {};
  }

  Result<void> read_yarn(RealRange factors) {
    RopeSettings& rope = shape_.rope;
    rope.scaling = RopeScaling::kYarn;
    ASSIGN_OR_RETURN(rope.factor, reader_.real("rope.scaling.factor", factors));
    ASSIGN_OR_RETURN(rope.original_context, reader_.number("rope.scaling.original_context_length",
                                                           {1, 1U << 24U}, shape_.context_length));
    ASSIGN_OR_RETURN(const float attention,
                     reader_.real("rope.scaling.attn_factor", {1e-3, 1e3}, 1.0F));
    ASSIGN_OR_RETURN(const float yarn_attention,
                     reader_.real("rope.scaling.yarn_attn_factor", {1e-3, 1e3}, 1.0F));
    rope.attention_factor = attention * yarn_attention;
    ASSIGN_OR_RETURN(rope.beta_fast,
                     reader_.real("rope.scaling.yarn_beta_fast", {1e-3, 1e6}, rope.beta_fast));
    ASSIGN_OR_RETURN(rope.beta_slow,
                     reader_.real("rope.scaling.yarn_beta_slow", {1e-3, 1e6}, rope.beta_slow));
    ASSIGN_OR_RETURN(const float extrapolation,
                     reader_.real("rope.scaling.yarn_ext_factor", {-1e3, 1e3}, 1.0F));
    constexpr std::string_view kLogMultiplier = "rope.scaling.yarn_log_multiplier";
    if (reader_.has(kLogMultiplier))
      return reader_.unsupported(kLogMultiplier, "is not supported", "use a plain YaRN model");
    if (extrapolation != 1.0F)
      return reader_.unsupported("rope.scaling.yarn_ext_factor", "must be 1",
                                 "use a plain YaRN model");
    return {};
  }

  // Divisors of the frequencies, one per rotated pair; empty without the tensor.
  Result<std::vector<float>> read_frequency_factors() const {
    constexpr std::string_view kName = "rope_freqs.weight";
    const TensorInfo* tensor = file_.find_tensor(kName);
    std::vector<float> factors;
    if (tensor == nullptr) return factors;
    RETURN_IF_ERROR(check_tensor(file_, kName, {shape_.rope.dimensions / 2}, TensorUse::kPlain));
    factors.resize(shape_.rope.dimensions / 2);
    std::memcpy(factors.data(), file_.tensor_data(*tensor).data(), factors.size() * sizeof(float));
    for (const float factor : factors)
      if (!(factor > 1e-6F && factor < 1e6F))
        return tensor_error(file_, kName, str_cat(factor, " is no frequency factor"));
    return factors;
  }

  Result<void> read_numerics() {
    ASSIGN_OR_RETURN(shape_.norm_epsilon,
                     reader_.real("attention.layer_norm_rms_epsilon", {0.0, 0.1}));
    ASSIGN_OR_RETURN(shape_.logit_softcap,
                     reader_.real("final_logit_softcapping", {0.0, 1e6}, 0.0F));
    const bool is_27b = is_gemma() && shape_.layer_count == kGemma27bLayers;
    const float width =
        is_27b ? static_cast<float>(shape_.embedding_dim) / static_cast<float>(shape_.head_count)
               : static_cast<float>(shape_.key_dim);
    ASSIGN_OR_RETURN(shape_.attention_scale,
                     reader_.real("attention.scale", {1e-6, 1e3}, 1.0F / std::sqrt(width)));
    if (is_gemma()) shape_.embedding_scale = std::sqrt(static_cast<float>(shape_.embedding_dim));
    shape_.qk_norm = is_gemma() || shape_.architecture == Architecture::kQwen3;
    shape_.post_norms = is_gemma();
    shape_.gelu = is_gemma();
    return {};
  }

  const GgufFile& file_;
  MetadataReader reader_;
  ModelShape shape_;
};

}  // namespace

std::string supported_architectures() {
  std::string list;
  for (const ArchitectureName& known : kArchitectures) {
    if (!list.empty()) list += ", ";
    list += known.name;
  }
  return list;
}

Result<ModelShape> read_shape(const GgufFile& file) {
  ASSIGN_OR_RETURN(const ArchitectureName architecture, read_architecture(file));
  return ShapeReader(file, architecture).read();
}

}  // namespace refrain::model
