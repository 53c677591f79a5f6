// See cpu_interpreter.h.
#include "model/cpu_interpreter.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "ggml.h"
#include "kernels/kv_rows.h"
#include "model/step_cut.h"

namespace refrain::model {
namespace {

const float* data_of(Weight weight) {
  return static_cast<const float*>(weight->data);
}

}  // namespace

CpuInterpreter::CpuInterpreter(const ModelShape& shape, KvArena& arena,
                               const kernels::CpuKernels& kernels, WorkerTeam& team,
                               const PackedWeights& packed)
    : shape_(shape), arena_(arena), kernels_(kernels), team_(team), packed_(packed), mass_(shape) {}

Result<void> CpuInterpreter::reserve(std::size_t bytes) {
  const kernels::AttentionShape attention{shape_.head_count, shape_.kv_head_count, shape_.key_dim,
                                          shape_.value_dim, shape_.attention_scale};
  const std::size_t scratch = std::max(kernels::attention_scratch_floats(attention) * sizeof(float),
                                       kernels::linear_scratch_bytes());
  if (memory_.reserve(bytes) && scratch_.reserve(scratch, team_.thread_count())) return {};
  return Error{Code::kUnavailable, "not enough memory for the activations of a batch",
               "lower --step-tokens"};
}

float* CpuInterpreter::floats(ValueId id) const {
  const CpuValue& value = program_->value(id);
  if (value.external != nullptr) return value.external;
  return reinterpret_cast<float*>(memory_.data() + value.offset);
}

float* CpuInterpreter::row_of(ValueId id, std::size_t row) const {
  return floats(id) + row * program_->value(id).dim;
}

Result<void> CpuInterpreter::run(CpuProgram& program, const BatchPlan& plan) {
  RETURN_IF_ERROR(reserve(program.arrange()));
  RETURN_IF_ERROR(mass_.begin(plan));
  queries_.assign(
      std::size_t{shape_.layer_count} * plan.query_rows.size() * shape_.head_count * shape_.key_dim,
      0.0F);
  program_ = &program;
  plan_ = &plan;
  for (const CpuStep& step : program.steps()) {
    if (step.kind == CpuOp::kLinear) {
      run_products(step);
    } else if (step.kind == CpuOp::kAttend) {
      run_attention(program.operations()[step.first]);
    } else {
      run_rows(step);
    }
  }
  return {};
}

void CpuInterpreter::run_rows(const CpuStep& step) {
  const std::vector<CpuOperation>& operations = program_->operations();
  const std::uint32_t piece = row_piece(step.rows, shape_.embedding_dim, team_.thread_count());
  auto task = [&](std::uint32_t index, std::uint32_t) {
    const std::uint32_t first = index * piece, last = std::min(step.rows, first + piece);
    for (std::uint32_t i = step.first; i < step.last; ++i) {
      run_row_operation(operations[i], first, last);
    }
  };
  team_.run(pieces_of(step.rows, piece), task);
}

void CpuInterpreter::run_row_operation(const CpuOperation& operation, std::uint32_t first,
                                       std::uint32_t last) {
  switch (operation.op) {
    case CpuOp::kQuantize:
      return quantize(operation, first, last);
    case CpuOp::kStoreKv:
      return store_kv(operation, first, last);
    default:
      for (std::uint32_t row = first; row < last; ++row) run_simple(operation, row);
  }
}

void CpuInterpreter::run_simple(const CpuOperation& operation, std::uint32_t row) {
  const auto in = [&] { return row_of(operation.a, row); };
  const auto out = [&] { return row_of(operation.result, row); };
  switch (operation.op) {
    case CpuOp::kEmbed:
      return embed(operation, row);
    case CpuOp::kScale:
      return kernels_.scale(in(), operation.number, program_->value(operation.a).dim, out());
    case CpuOp::kAdd:
      return kernels_.add(in(), row_of(operation.b, row), program_->value(operation.a).dim, out());
    case CpuOp::kRmsNorm: {
      const std::uint32_t width = program_->value(operation.a).dim;
      for (std::uint32_t at = 0; at < width; at += operation.dim) {
        kernels_.rms_norm(in() + at, data_of(operation.weight), operation.dim, operation.number,
                          out() + at);
      }
      return;
    }
    case CpuOp::kGlu:
      return kernels_.glu(in(), row_of(operation.b, row), program_->value(operation.a).dim,
                          operation.gate, out());
    case CpuOp::kAngles: {
      const std::uint32_t pairs = program_->value(operation.result).dim / 2;
      return operation.frequencies->angles(plan_->positions[row], out(), out() + pairs);
    }
    case CpuOp::kRotate:
      return rotate(operation, row);
    case CpuOp::kSoftCap:
      return kernels_.soft_cap(in(), program_->value(operation.a).dim, operation.number);
    case CpuOp::kGather:
      std::copy_n(row_of(operation.a, static_cast<std::size_t>(operation.rows[row])),
                  program_->value(operation.a).dim, out());
      return;
    default:
      CHECK(false, "not an operation on rows");
  }
}

void CpuInterpreter::embed(const CpuOperation& operation, std::uint32_t row) {
  const ggml_tensor* table = operation.weight;
  const auto* from = static_cast<const std::byte*>(table->data) +
                     static_cast<std::size_t>(plan_->tokens[row]) * table->nb[1];
  float* to = row_of(operation.result, row);
  if (table->type == GGML_TYPE_F32) {
    std::memcpy(to, from, table->nb[1]);
  } else {
    ggml_get_type_traits(table->type)->to_float(from, to, table->ne[0]);
  }
}

void CpuInterpreter::rotate(const CpuOperation& operation, std::uint32_t row) {
  const std::uint32_t width = program_->value(operation.a).dim;
  const float *from = row_of(operation.a, row), *angles = row_of(operation.b, row);
  float* to = row_of(operation.result, row);
  if (from != to) std::copy_n(from, width, to);
  const std::uint32_t dimensions = program_->value(operation.b).dim;
  kernels_.rotate(to, width / operation.dim, operation.dim,
                  {angles, angles + dimensions / 2, dimensions, operation.flag});
}

void CpuInterpreter::quantize(const CpuOperation& operation, std::uint32_t first,
                              std::uint32_t last) {
  const CpuValue& value = program_->value(operation.result);
  const kernels::QuantizedRows rows =
      kernels::QuantizedRows::at(memory_.data() + value.offset, value.rows, value.dim);
  for (std::uint32_t row = first; row < last; ++row) {
    kernels_.quantize_row(row_of(operation.a, row), value.dim, operation.number, rows, row);
  }
}

void CpuInterpreter::store_kv(const CpuOperation& operation, std::uint32_t first,
                              std::uint32_t last) {
  const std::uint32_t layer = operation.attention.layer;
  const kernels::RemainderRow* remainders = plan_->remainders.stored();
  if (remainders != nullptr) remainders += first;  // null where the layout keeps none
  kernels_.store_kv_rows(arena_.layout(), arena_.layer(layer), layer, plan_->slots.data() + first,
                         last - first, row_of(operation.a, first), row_of(operation.b, first),
                         remainders);
}

void CpuInterpreter::run_products(const CpuStep& step) {
  const std::vector<CpuOperation>& operations = program_->operations();
  std::uint32_t panels = 0;
  for (std::uint32_t i = step.first; i < step.last; ++i) {
    panels += packed_.of(operations[i].weight).panel_count();
  }
  const std::uint32_t piece = panel_piece(panels, team_.thread_count());
  // Panels of all products in a row; a piece may reach over two of them.
  auto task = [&](std::uint32_t index, std::uint32_t thread) {
    std::uint32_t first = index * piece, last = std::min(panels, first + piece);
    for (std::uint32_t i = step.first; i < step.last && last > 0; ++i) {
      const std::uint32_t count = packed_.of(operations[i].weight).panel_count();
      if (first < count) multiply(operations[i], first, std::min(count, last), scratch_.of(thread));
      first = first > count ? first - count : 0;
      last = last > count ? last - count : 0;
    }
  };
  team_.run(pieces_of(panels, piece), task);
}

void CpuInterpreter::multiply(const CpuOperation& operation, std::uint32_t first_panel,
                              std::uint32_t last_panel, std::byte* scratch) {
  const kernels::PackedMatrix& matrix = packed_.of(operation.weight);
  const CpuValue& in = program_->value(operation.a);
  kernels::LinearInput input;
  if (in.quantized) {
    input.quantized = kernels::QuantizedRows::at(memory_.data() + in.offset, in.rows, in.dim);
  } else {
    input.rows = floats(operation.a);
    input.stride = in.dim;
  }
  float* y = floats(operation.result);
  kernels_.linear(matrix, input, {0, in.rows, first_panel, last_panel}, y, matrix.rows, scratch);
  if (operation.bias == nullptr) return;
  const std::uint32_t first = first_panel * kernels::kPanelRows;
  const std::uint32_t last = std::min(matrix.rows, last_panel * kernels::kPanelRows);
  for (std::uint32_t row = 0; row < in.rows; ++row) {
    float* at = y + std::size_t{matrix.rows} * row + first;
    kernels_.add(at, data_of(operation.bias) + first, last - first, at);
  }
}

void CpuInterpreter::copy_queries(const CpuOperation& operation) {
  const std::size_t dim = program_->value(operation.a).dim;
  float* to = queries_.data() + operation.attention.layer * plan_->query_rows.size() * dim;
  for (const std::uint32_t row : plan_->query_rows)
    to = std::copy_n(row_of(operation.a, row), dim, to);
}

void CpuInterpreter::run_attention(const CpuOperation& operation) {
  copy_queries(operation);
  kernels::AttentionCall call;
  call.shape = {shape_.head_count,
                shape_.kv_head_count,
                shape_.key_dim,
                shape_.value_dim,
                operation.attention.scale,
                operation.attention.window,
                operation.attention.soft_cap};
  call.layout = arena_.layout();
  call.kv = arena_.layer(operation.attention.layer);
  call.arena = arena_.layer(0);
  call.layer = operation.attention.layer;
  call.query = floats(operation.a);
  call.output = floats(operation.result);
  call.positions = plan_->keys.data();
  call.sequences = plan_->sequences.data();
  call.block_size = arena_.block_size();
  call.remainders = plan_->remainders.seen();
  const bool wants_mass = mass_.wanted(operation.attention.layer);
  if (wants_mass) {
    call.mass = mass_.rows();
    call.mass_stride = mass_.stride();
  }
  kernels::AttentionKernel* const kernel = kernels_.attention(call.layout.format);
  auto task = [&](std::uint32_t index, std::uint32_t thread) {
    kernel(call, plan_->attention, plan_->attention.tasks[index], scratch_.floats_of(thread));
  };
  team_.run(static_cast<std::uint32_t>(plan_->attention.tasks.size()), task);
  if (wants_mass) mass_.add_layer(operation.attention.layer);
}

}  // namespace refrain::model
