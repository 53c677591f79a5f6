// The compiled variants of the attention kernel; kernels/ only. Each is attention_body.h compiled
// for one instruction set (files named *_avx512.cpp and *_avx2.cpp get their flags from CMake).
#pragma once

#include <cstdint>

#include "kernels/paged_attention.h"

namespace refrain::kernels {

inline constexpr std::uint32_t kDimPadding = 16;  // head dims are padded to this in scratch
inline constexpr std::uint32_t kQueryBlock = 4;   // query rows held in registers together

using AttentionKernel = void(const AttentionCall& call, const AttentionTask& task, float* scratch);

AttentionKernel run_attention_portable;
#if defined(__x86_64__)
AttentionKernel run_attention_avx2;
AttentionKernel run_attention_avx512;
#endif

}  // namespace refrain::kernels
