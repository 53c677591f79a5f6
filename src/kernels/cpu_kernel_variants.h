// The tables that cpu_kernels_*.cpp define, each compiled for its instruction set; kernels/ only.
#pragma once

#include "kernels/cpu_kernels.h"

namespace refrain::kernels {

extern const CpuKernels kCpuKernelsPortable;
#if defined(__x86_64__)
extern const CpuKernels kCpuKernelsAvx2;
extern const CpuKernels kCpuKernelsAvx512;
#endif

}  // namespace refrain::kernels
