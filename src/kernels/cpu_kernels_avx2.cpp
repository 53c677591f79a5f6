// The kernels for AVX2. Any thread.
#if defined(__x86_64__)
#include "kernels/cpu_kernel_variants.h"
#include "kernels/linear_body.h"
#include "kernels/peak_body.h"
#include "kernels/row_body.h"

namespace refrain::kernels {

const CpuKernels kCpuKernelsAvx2 = {
    .linear = linear,
    .quantize_row = quantize_row,
    .rms_norm = rms_norm,
    .glu = glu_row,
    .add = add_row,
    .scale = scale_row,
    .soft_cap = soft_cap_row,
    .rotate = rotate_row,
    .store_kv_rows = store_kv_rows_avx2,
    .turn_key_tile = turn_key_tile_avx2,
    .attention_by_format = {run_attention_f16_avx2, run_attention_q8_avx2, run_attention_q8_q4_avx2,
                            run_attention_q4_avx2},
    .int8_peak = int8_peak,
    .float_peak = float_peak};

}  // namespace refrain::kernels
#endif
