// The kernels' weight types and ggml's, one for the other. A constant table, any thread.
#pragma once

#include <string_view>

#include "kernels/packed_matrix.h"

namespace refrain::model {

// `ggml_type`: one that the loader takes (tensor_types.h).
kernels::WeightType weight_type_of(int ggml_type);
int ggml_type_of(kernels::WeightType type);
// "f32", "q4_K": as ggml writes it.
std::string_view type_name(kernels::WeightType type);

}  // namespace refrain::model
