// The kernels for AVX-512 with VNNI. Any thread.
#if defined(__x86_64__)
#define REFRAIN_VARIANT(name) name##_avx512
#define REFRAIN_KERNELS kCpuKernelsAvx512
#include "kernels/cpu_kernels_body.h"
#endif
