// Finds out what the processor has. Any thread.
#include "kernels/cpu_kernels.h"

#include "base/check.h"
#include "kernels/cpu_kernel_variants.h"

namespace refrain::kernels {

bool is_available(InstructionSet set) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  switch (set) {
    case InstructionSet::kPortable:
      return true;
    case InstructionSet::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("f16c");
    case InstructionSet::kAvx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512vnni");
  }
  return false;
#else
  return set == InstructionSet::kPortable;
#endif
}

InstructionSet best_instruction_set() {
  for (const InstructionSet set : {InstructionSet::kAvx512, InstructionSet::kAvx2}) {
    if (is_available(set)) return set;
  }
  return InstructionSet::kPortable;
}

const CpuKernels& cpu_kernels(InstructionSet set) {
  CHECK(is_available(set), "this processor does not have the instruction set");
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx512) return kCpuKernelsAvx512;
  if (set == InstructionSet::kAvx2) return kCpuKernelsAvx2;
#endif
  return kCpuKernelsPortable;
}

std::string_view name_of(InstructionSet set) {
  switch (set) {
    case InstructionSet::kPortable:
      return "portable";
    case InstructionSet::kAvx2:
      return "avx2";
    case InstructionSet::kAvx512:
      return "avx512";
  }
  return "";
}

std::optional<InstructionSet> instruction_set_named(std::string_view name) {
  for (const InstructionSet set :
       {InstructionSet::kPortable, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (name_of(set) == name) return set;
  }
  return std::nullopt;
}

}  // namespace refrain::kernels
