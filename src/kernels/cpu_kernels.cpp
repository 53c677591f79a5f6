// Finds out what the processor has. Any thread.
#include "kernels/cpu_kernels.h"

#include "base/check.h"
#include "base/str.h"
#include "kernels/cpu_kernel_variants.h"

namespace refrain::kernels {
namespace {

constexpr InstructionSet kAllSets[] = {InstructionSet::kPortable, InstructionSet::kAvx2,
                                       InstructionSet::kAvx512};

}  // namespace

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

std::vector<InstructionSet> available_instruction_sets() {
  std::vector<InstructionSet> sets;
  for (const InstructionSet set : kAllSets) {
    if (is_available(set)) sets.push_back(set);
  }
  return sets;
}

InstructionSet best_instruction_set() {
  return available_instruction_sets().back();
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
  for (const InstructionSet set : kAllSets) {
    if (name_of(set) == name) return set;
  }
  return std::nullopt;
}

std::string attention_numerics(KvFormat format, InstructionSet set) {
  // What multiply_add_apart() is (simd.h).
  const bool apart = format == KvFormat::kF16 && set == InstructionSet::kPortable;
  const bool remainders = kv_formats()[static_cast<std::size_t>(format)].value == KvSide::kQ4;
  return str_cat("attention/", remainders ? kRemainderAttentionVersion : kAttentionVersion, " ",
                 kv_format_name(format), apart ? " apart" : "");
}

}  // namespace refrain::kernels
