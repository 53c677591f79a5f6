// The kernels for AVX-512 with VNNI. Any thread.
#if defined(__x86_64__)
#include "kernels/cpu_kernel_variants.h"
#include "kernels/linear_body.h"
#include "kernels/peak_body.h"
#include "kernels/row_body.h"

namespace refrain::kernels {

const CpuKernels kCpuKernelsAvx512 = {linear,    quantize_row, rms_norm,   glu_row,   add_row,
                                      scale_row, soft_cap_row, rotate_row, int8_peak, float_peak};

}  // namespace refrain::kernels
#endif
