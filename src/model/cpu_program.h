// CpuProgram: the operations of one batch as recorded, where their values lie in memory, and which
// of them run together. Operations that work on each row for itself and follow each other form one
// step, so that a row passes through all of them while it is in the cache; products of the same
// rows form one step; attention is one. Plain data and arithmetic; engine thread.
//
//   step   rows: norm, quantize | products: q k v | rows: rotate, store | attention | rows:
//   quantize
//          | product | rows: add, norm, quantize | products: gate up | rows: glu, quantize | ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/linear.h"
#include "model/ops.h"
#include "model/rotary.h"

namespace refrain::model {

enum class CpuOp {
  // Row by row.
  kEmbed,
  kScale,
  kAdd,
  kRmsNorm,
  kGlu,
  kAngles,  // cosines and sines of the rows' positions
  kRotate,
  kQuantize,
  kStoreKv,
  kSoftCap,
  kGather,  // the first of its step: takes rows of an earlier value
  // Steps of their own.
  kLinear,
  kAttend,
};

using ValueId = std::uint32_t;
inline constexpr ValueId kNoValue = ~ValueId{0};

// Rows of a batch's intermediate result: FP32 [rows][dim], or quantized.
struct CpuValue {
  std::uint32_t rows = 0;
  std::uint32_t dim = 0;
  bool quantized = false;
  float* external = nullptr;      // lies there instead of in the program's memory
  ValueId same_place = kNoValue;  // an earlier value whose place it takes over
  ValueId quantized_form = kNoValue;
  std::uint32_t first_step = 0, last_step = 0;  // written, last read
  std::uint32_t last_reader = 0;                // operation
  std::size_t offset = 0;                       // bytes
  std::size_t bytes() const;
};

struct CpuOperation {
  CpuOp op = CpuOp::kScale;
  ValueId a = kNoValue, b = kNoValue;  // inputs
  ValueId result = kNoValue;
  Weight weight = nullptr;  // table, norm or matrix
  Weight bias = nullptr;
  std::uint32_t dim = 0;  // rms_norm: of a piece; rotate: of a head
  float number = 0.0F;    // factor, epsilon, limit, excess ratio
  Gate gate = Gate::kSilu;
  bool flag = false;                               // rotate: pairs are halves of the head
  const RotaryFrequencies* frequencies = nullptr;  // angles
  AttentionSettings attention;                     // attend; layer: store_kv
  const std::int32_t* rows = nullptr;              // gather: [result rows]
};

struct CpuStep {
  CpuOp kind = CpuOp::kScale;         // kLinear, kAttend; any other: rows
  std::uint32_t first = 0, last = 0;  // operations
  std::uint32_t rows = 0;
};

class CpuProgram {
 public:
  void clear();
  ValueId new_value(std::uint32_t rows, std::uint32_t dim, bool quantized);
  void add(const CpuOperation& operation);

  CpuValue& value(ValueId id) { return values_[id]; }
  const CpuValue& value(ValueId id) const { return values_[id]; }
  const std::vector<CpuOperation>& operations() const { return operations_; }
  const std::vector<CpuStep>& steps() const { return steps_; }

  // Forms steps and gives each value its place. Returns the bytes of memory that run needs.
  std::size_t arrange();

 private:
  bool continues(const CpuOperation& operation) const;
  void form_steps();
  void find_lifetimes();
  void share_places();
  std::size_t place_values();

  std::vector<CpuValue> values_;
  std::vector<CpuOperation> operations_;
  std::vector<CpuStep> steps_;
};

}  // namespace refrain::model
