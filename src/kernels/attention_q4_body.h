// Keys and values of 4 bits, and attention over them; the including file defines REFRAIN_VARIANT.
// Codes become levels (kv_layout.h) by one look-up of bytes in registers. Levels are of 7 bits, so
// that AVX2 multiplies them in fewer steps than bytes of 8. Read attention_bytes_body.h first.
#pragma once

#include "kernels/attention_q8_body.h"

namespace refrain::kernels {
namespace {

// Codes of the lower half of each byte, or of the upper one.
REFRAIN_INLINE IntVec codes_of(IntVec line, std::uint32_t upper) {
  const IntVec shifted =
      each_int_part([&](int i) { return upper == 0 ? line.p[i] : line.p[i] >> 4; });
  return shifted & splat_byte(15);
}

struct Q4Keys {
  static constexpr std::uint32_t kLineGroups = 2;
  static constexpr std::int32_t kOffset = 64;
  // kQ4Levels + kOffset.
  static constexpr std::int8_t kBytes[16] = {1,  16, 27, 35, 42, 49,  55,  61,
                                             67, 73, 79, 86, 93, 101, 112, 127};
  static REFRAIN_INLINE IntVec key(IntVec line, std::uint32_t i) {
    return look_up_bytes(kBytes, codes_of(line, i));
  }
  static REFRAIN_INLINE IntVec add_products(IntVec sum, IntVec key, IntVec query) {
    return add_byte_products<true>(sum, key, query);
  }
};

struct Q4Values {
  static constexpr std::uint32_t kLineVectors = 2;
  static constexpr bool kNarrow = true;
  static REFRAIN_INLINE IntVec value(IntVec line, std::uint32_t i) {
    return look_up_bytes(kQ4Levels, codes_of(line, i));
  }
};

constexpr bool q4_bytes_are_levels() {
  for (int i = 0; i < 16; ++i) {
    if (Q4Keys::kBytes[i] != kQ4Levels[i] + Q4Keys::kOffset) return false;
  }
  return true;
}
static_assert(q4_bytes_are_levels());

}  // namespace

void REFRAIN_VARIANT(run_attention_q8_q4)(const AttentionCall& call, const AttentionPlan& plan,
                                          const AttentionTask& task, float* scratch) {
  Task<ByteReduction<Q8Keys, Q4Values>>(call, plan, task, scratch).run();
}

void REFRAIN_VARIANT(run_attention_q4)(const AttentionCall& call, const AttentionPlan& plan,
                                       const AttentionTask& task, float* scratch) {
  Task<ByteReduction<Q4Keys, Q4Values>>(call, plan, task, scratch).run();
}

}  // namespace refrain::kernels
