// The kernels of one instruction set as a table of functions, so that the choice is made once and
// tests can run all that the machine has. Results are the same bits for every set, but for
// attention on float16 (attention_numerics). Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kv_rows.h"
#include "kernels/linear.h"
#include "kernels/paged_attention.h"
#include "kernels/row_ops.h"

namespace refrain::kernels {

enum class InstructionSet { kPortable, kAvx2, kAvx512 };  // kAvx512: with VNNI

struct CpuKernels {
  // y[row * stride + n] for the rows and panels of `range`; values of matrix rows that do not exist
  // are not written. A row with NaN or infinity gives NaN.
  void (*linear)(const PackedMatrix& matrix, const LinearInput& input, const LinearRange& range,
                 float* y, std::size_t stride, std::byte* scratch);
  // Row `row` of `to` from `x` [dim]. Values above excess_ratio times the root mean square of the
  // row stand out. A group with NaN or infinity gets the scale NaN.
  void (*quantize_row)(const float* x, std::uint32_t dim, float excess_ratio,
                       const QuantizedRows& to, std::size_t row);
  // y = x / sqrt(mean(x^2) + epsilon) * weight, all [dim]; x may be y.
  void (*rms_norm)(const float* x, const float* weight, std::uint32_t dim, float epsilon, float* y);
  // y = gate(a) * b, [dim]; y may be a or b.
  void (*glu)(const float* a, const float* b, std::uint32_t dim, Gate gate, float* y);
  void (*add)(const float* a, const float* b, std::uint32_t dim, float* y);
  void (*scale)(const float* x, float factor, std::uint32_t dim, float* y);
  // limit * tanh(y / limit), in place.
  void (*soft_cap)(float* y, std::uint32_t dim, float limit);
  // Turns each of `heads` heads of head_dim values, in place.
  void (*rotate)(float* x, std::uint32_t heads, std::uint32_t head_dim, const Rotation& rotation);
  StoreKernel* store_kv_rows;
  TurnKernel* turn_key_tile;
  AttentionKernel* attention_by_format[kKvFormatCount];  // in the order of KvFormat
  // For measuring: `rounds` of 8-bit dot products, of FP32 multiply-adds, on registers alone.
  // Return the operations done, two a product. `sink` takes what came out, so that the work is not
  // left out; rounds <= 2^24, so that the 8-bit sums stay whole.
  double (*int8_peak)(std::uint32_t rounds, float* sink);
  double (*float_peak)(std::uint32_t rounds, float* sink);

  AttentionKernel* attention(KvFormat format) const {
    return attention_by_format[static_cast<std::size_t>(format)];
  }
};

bool is_available(InstructionSet set);
InstructionSet best_instruction_set();
const CpuKernels& cpu_kernels(InstructionSet set);  // the set is available
std::string_view name_of(InstructionSet set);       // "portable", "avx2", "avx512"
std::optional<InstructionSet> instruction_set_named(std::string_view name);
std::vector<InstructionSet> available_instruction_sets();  // the fastest last

// What the bits of attention depend on beside its inputs, for cache keys: "attention/4 q8", or
// "attention/4 f16 apart" where products and sums of float16 rows round apart.
std::string attention_numerics(KvFormat format, InstructionSet set);

}  // namespace refrain::kernels
