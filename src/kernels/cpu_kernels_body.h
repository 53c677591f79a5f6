// The table of kernels of one instruction set; compiled once for each. The including file defines
// REFRAIN_VARIANT, as attention_*.cpp do, and REFRAIN_KERNELS, the table's name.
#pragma once

#include "kernels/cpu_kernel_variants.h"
#include "kernels/linear_body.h"
#include "kernels/peak_body.h"
#include "kernels/row_body.h"

namespace refrain::kernels {

const CpuKernels REFRAIN_KERNELS = {
    .linear = linear,
    .quantize_row = quantize_row,
    .rms_norm = rms_norm,
    .glu = glu_row,
    .add = add_row,
    .scale = scale_row,
    .soft_cap = soft_cap_row,
    .rotate = rotate_row,
    .store_kv_rows = REFRAIN_VARIANT(store_kv_rows),
    .turn_key_tile = REFRAIN_VARIANT(turn_key_tile),
    .attention_by_format = {REFRAIN_VARIANT(run_attention_f16), REFRAIN_VARIANT(run_attention_q8),
                            REFRAIN_VARIANT(run_attention_q8_q4),
                            REFRAIN_VARIANT(run_attention_q4)},
    .int8_peak = int8_peak,
    .float_peak = float_peak};

}  // namespace refrain::kernels
