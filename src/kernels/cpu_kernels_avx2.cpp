// The kernels for AVX2. Any thread.
#if defined(__x86_64__)
#define REFRAIN_VARIANT(name) name##_avx2
#define REFRAIN_KERNELS kCpuKernelsAvx2
#include "kernels/cpu_kernels_body.h"
#endif
