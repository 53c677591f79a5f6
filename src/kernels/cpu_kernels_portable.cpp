// The kernels for any processor. Any thread.
#define REFRAIN_VARIANT(name) name##_portable
#define REFRAIN_KERNELS kCpuKernelsPortable
#include "kernels/cpu_kernels_body.h"
