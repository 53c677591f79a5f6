// What a task of attention keeps beside its inputs, for the bodies compiled per instruction set;
// kernels/ only.
#pragma once

#include <cstddef>
#include <cstdint>

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

}  // namespace refrain::kernels
