// Our table of tensor types against ggml's own.
#include "model/tensor_types.h"

#include <ggml.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

namespace refrain::model {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

TEST(TensorTypes, NamesAndSizesAreThoseOfGgml) {
  int count = 0;
  for (int id = 0; id < GGML_TYPE_COUNT; ++id) {
    const auto* traits = ggml_get_type_traits(static_cast<ggml_type>(id));
    const TensorType* type = find_tensor_type(static_cast<std::uint32_t>(id));
    if (traits->blck_size == 0) {  // given up by ggml: perhaps known by name, never computed with
      EXPECT_TRUE(type == nullptr || !type->supported) << id;
      continue;
    }
    ASSERT_NE(type, nullptr) << id << " " << traits->type_name;
    ++count;
    EXPECT_EQ(lower(type->name), lower(traits->type_name)) << id;
    EXPECT_EQ(type->block_values, traits->blck_size) << type->name;
    EXPECT_EQ(type->block_bytes, traits->type_size) << type->name;
  }
  EXPECT_GE(count, 35);
}

TEST(TensorTypes, ElevenAreSupportedAndListed) {
  EXPECT_EQ(supported_tensor_types(),
            "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K");
  EXPECT_EQ(find_tensor_type(GGML_TYPE_COUNT + 1000), nullptr);
}

}  // namespace
}  // namespace refrain::model
