// Keys and values of 8 bits, and attention over both; the including file defines REFRAIN_VARIANT.
// Read attention_bytes_body.h first.
#pragma once

#include "kernels/attention_bytes_body.h"

namespace refrain::kernels {
namespace {

struct Q8Keys {
  static constexpr std::uint32_t kLineGroups = 1;
#if defined(REFRAIN_SIMD_AVX2)
  // Signed bytes: there that takes fewer steps.
  static constexpr std::int32_t kOffset = 0;
  static REFRAIN_INLINE IntVec key(IntVec line, std::uint32_t /*i*/) {
    return each_int_part([&](int i) { return line.p[i] ^ splat_byte(128).p[i]; });
  }
  static REFRAIN_INLINE IntVec add_products(IntVec sum, IntVec key, IntVec query) {
    return add_signed_byte_products(sum, key, query);
  }
#else
  static constexpr std::int32_t kOffset = 128;
  static REFRAIN_INLINE IntVec key(IntVec line, std::uint32_t /*i*/) { return line; }
  static REFRAIN_INLINE IntVec add_products(IntVec sum, IntVec key, IntVec query) {
    return add_byte_products<false>(sum, key, query);
  }
#endif
};

struct Q8Values {
  static constexpr std::uint32_t kLineVectors = 1;
  static constexpr bool kNarrow = false;
  static REFRAIN_INLINE IntVec value(IntVec line, std::uint32_t /*i*/) { return line; }
};

}  // namespace

void REFRAIN_VARIANT(run_attention_q8)(const AttentionCall& call, const AttentionPlan& plan,
                                       const AttentionTask& task, float* scratch) {
  Task<ByteReduction<Q8Keys, Q8Values>>(call, plan, task, scratch).run();
}

}  // namespace refrain::kernels
