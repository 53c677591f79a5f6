// The tables that cpu_kernels_*.cpp define, and the functions of attention_*.cpp that they hold,
// each compiled for its instruction set; kernels/ only.
#pragma once

#include "kernels/cpu_kernels.h"

namespace refrain::kernels {

AttentionKernel run_attention_f16_portable, run_attention_q8_portable;
AttentionKernel run_attention_q8_q4_portable, run_attention_q4_portable;
StoreKernel store_kv_rows_portable;
TurnKernel turn_key_tile_portable;
extern const CpuKernels kCpuKernelsPortable;
#if defined(__x86_64__)
AttentionKernel run_attention_f16_avx2, run_attention_q8_avx2;
AttentionKernel run_attention_q8_q4_avx2, run_attention_q4_avx2;
AttentionKernel run_attention_f16_avx512, run_attention_q8_avx512;
AttentionKernel run_attention_q8_q4_avx512, run_attention_q4_avx512;
StoreKernel store_kv_rows_avx2, store_kv_rows_avx512;
TurnKernel turn_key_tile_avx2, turn_key_tile_avx512;
extern const CpuKernels kCpuKernelsAvx2;
extern const CpuKernels kCpuKernelsAvx512;
#endif

}  // namespace refrain::kernels
