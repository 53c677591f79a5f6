// The compiled variants of the kernels for one instruction set each; kernels/ only. The bodies
// (attention_*_body.h, kv_store_body.h) are compiled by files named for their instruction set,
// which get their flags from CMake.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cpu_kernels.h"
#include "kernels/paged_attention.h"

namespace refrain::kernels {

inline constexpr std::uint32_t kQueryGroup = 24;   // query rows reduced together over a split
inline constexpr std::uint32_t kRecordExtra = 16;  // floats of a record behind its columns

// Where the parts of a task's scratch begin, in floats; each aligned to 64 bytes.
struct AttentionScratch {
  std::size_t queries = 0;  // packed for the kernel
  std::size_t scores = 0;   // [kQueryGroup][kSplitKeys]
  std::size_t weights = 0;  // q8: two bytes for each score
  std::size_t records = 0;  // [kQueryGroup] of the split at hand
  std::size_t states = 0;   // [queries of a task] merged so far
  std::size_t keys = 0;     // f16: one split as floats
  std::size_t values = 0;   // f16: one split as floats
  std::size_t total = 0;
};
AttentionScratch attention_scratch(const AttentionShape& shape);

// Takes one from `pending`; true for the last task of a share, which then sees what the others
// wrote, and has set the count for the next layer.
bool end_shared_task(const AttentionPlan& plan, std::uint32_t share);

using AttentionKernel = void(const AttentionCall& call, const AttentionPlan& plan,
                             const AttentionTask& task, float* scratch);
using StoreKernel = void(const KvLayout& layout, std::byte* layer, const std::int64_t* slots,
                         std::size_t count, const float* keys, const float* values);

AttentionKernel run_attention_f16_portable, run_attention_q8_portable;
StoreKernel store_kv_rows_portable;
#if defined(__x86_64__)
AttentionKernel run_attention_f16_avx2, run_attention_q8_avx2;
AttentionKernel run_attention_f16_avx512, run_attention_q8_avx512;
StoreKernel store_kv_rows_avx2, store_kv_rows_avx512;
#endif

struct AttentionVariant {
  InstructionSet set = InstructionSet::kPortable;
  AttentionKernel* kernel = nullptr;
  StoreKernel* store = nullptr;
};
// All that this processor can run, the fastest last.
std::vector<AttentionVariant> attention_variants(KvFormat format);

}  // namespace refrain::kernels
