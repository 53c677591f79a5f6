// The kernels for any processor. Any thread.

#include "kernels/cpu_kernel_variants.h"
#include "kernels/linear_body.h"
#include "kernels/peak_body.h"
#include "kernels/row_body.h"

namespace refrain::kernels {

const CpuKernels kCpuKernelsPortable = {
    .linear = linear,
    .quantize_row = quantize_row,
    .rms_norm = rms_norm,
    .glu = glu_row,
    .add = add_row,
    .scale = scale_row,
    .soft_cap = soft_cap_row,
    .rotate = rotate_row,
    .store_kv_rows = store_kv_rows_portable,
    .turn_key_tile = turn_key_tile_portable,
    .attention_by_format = {run_attention_f16_portable, run_attention_q8_portable,
                            run_attention_q8_q4_portable, run_attention_q4_portable},
    .int8_peak = int8_peak,
    .float_peak = float_peak};

}  // namespace refrain::kernels
