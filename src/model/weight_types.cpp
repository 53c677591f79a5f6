// See weight_types.h.
#include "model/weight_types.h"

#include "base/check.h"
#include "ggml.h"

namespace refrain::model {
namespace {

struct Pair {
  kernels::WeightType ours;
  ggml_type theirs;
};

constexpr Pair kPairs[] = {
    {kernels::WeightType::kF32, GGML_TYPE_F32},   {kernels::WeightType::kF16, GGML_TYPE_F16},
    {kernels::WeightType::kBF16, GGML_TYPE_BF16}, {kernels::WeightType::kQ4_0, GGML_TYPE_Q4_0},
    {kernels::WeightType::kQ4_1, GGML_TYPE_Q4_1}, {kernels::WeightType::kQ5_0, GGML_TYPE_Q5_0},
    {kernels::WeightType::kQ5_1, GGML_TYPE_Q5_1}, {kernels::WeightType::kQ8_0, GGML_TYPE_Q8_0},
    {kernels::WeightType::kQ4_K, GGML_TYPE_Q4_K}, {kernels::WeightType::kQ5_K, GGML_TYPE_Q5_K},
    {kernels::WeightType::kQ6_K, GGML_TYPE_Q6_K}};

}  // namespace

kernels::WeightType weight_type_of(int type) {
  for (const Pair& pair : kPairs) {
    if (pair.theirs == type) return pair.ours;
  }
  CHECK(false, "the loader passed a tensor type that no kernel reads");
}

int ggml_type_of(kernels::WeightType type) {
  for (const Pair& pair : kPairs) {
    if (pair.ours == type) return pair.theirs;
  }
  CHECK(false, "a weight type that ggml does not have");
}

std::string_view type_name(kernels::WeightType type) {
  return ggml_type_name(static_cast<ggml_type>(ggml_type_of(type)));
}

}  // namespace refrain::model
