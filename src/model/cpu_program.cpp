// Steps, lifetimes and places of a recorded batch. See cpu_program.h.
#include "model/cpu_program.h"

#include <algorithm>

#include "base/check.h"

namespace refrain::model {
namespace {

constexpr std::size_t kAlignment = 64;

bool works_by_rows(CpuOp op) {
  return op != CpuOp::kLinear && op != CpuOp::kAttend;
}

// The result may lie where input `a` lay.
bool works_in_place(CpuOp op) {
  return op == CpuOp::kScale || op == CpuOp::kAdd || op == CpuOp::kRmsNorm || op == CpuOp::kGlu ||
         op == CpuOp::kRotate;
}

// Free memory as gaps in ascending order; first fit.
class Places {
 public:
  std::size_t take(std::size_t bytes) {
    for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) {
      if (gap->bytes < bytes) continue;
      const std::size_t at = gap->offset;
      gap->offset += bytes;
      gap->bytes -= bytes;
      if (gap->bytes == 0) gaps_.erase(gap);
      return at;
    }
    const std::size_t at = end_;
    end_ += bytes;
    return at;
  }

  void give_back(std::size_t offset, std::size_t bytes) {
    const auto after = std::find_if(gaps_.begin(), gaps_.end(),
                                    [&](const Gap& gap) { return gap.offset > offset; });
    const auto made = gaps_.insert(after, {offset, bytes});
    const auto next = made + 1;
    if (next != gaps_.end() && made->offset + made->bytes == next->offset) {
      made->bytes += next->bytes;
      gaps_.erase(next);
    }
    if (made != gaps_.begin()) {
      const auto before = made - 1;
      if (before->offset + before->bytes == made->offset) {
        before->bytes += made->bytes;
        gaps_.erase(made);
      }
    }
  }

  std::size_t end() const { return end_; }

 private:
  struct Gap {
    std::size_t offset, bytes;
  };
  std::vector<Gap> gaps_;
  std::size_t end_ = 0;
};

}  // namespace

std::size_t CpuValue::bytes() const {
  const std::size_t bytes = quantized ? kernels::QuantizedRows::bytes(rows, dim)
                                      : std::size_t{rows} * dim * sizeof(float);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

void CpuProgram::clear() {
  values_.clear();
  operations_.clear();
  steps_.clear();
}

ValueId CpuProgram::new_value(std::uint32_t rows, std::uint32_t dim, bool quantized) {
  CpuValue value;
  value.rows = rows;
  value.dim = dim;
  value.quantized = quantized;
  values_.push_back(value);
  return static_cast<ValueId>(values_.size() - 1);
}

void CpuProgram::add(const CpuOperation& operation) {
  operations_.push_back(operation);
}

std::size_t CpuProgram::arrange() {
  steps_.clear();
  form_steps();
  find_lifetimes();
  share_places();
  return place_values();
}

bool CpuProgram::continues(const CpuOperation& operation) const {
  if (steps_.empty()) return false;
  const CpuStep& step = steps_.back();
  if (operation.op == CpuOp::kLinear) {
    return step.kind == CpuOp::kLinear && operations_[step.first].a == operation.a;
  }
  if (operation.op == CpuOp::kAttend || operation.op == CpuOp::kGather) return false;
  const std::uint32_t rows =
      values_[operation.result != kNoValue ? operation.result : operation.a].rows;
  return works_by_rows(step.kind) && step.rows == rows;
}

void CpuProgram::form_steps() {
  for (std::uint32_t i = 0; i < operations_.size(); ++i) {
    const CpuOperation& operation = operations_[i];
    if (continues(operation)) {
      steps_.back().last = i + 1;
    } else {
      const ValueId sized = operation.result != kNoValue ? operation.result : operation.a;
      steps_.push_back({operation.op, i, i + 1, values_[sized].rows});
    }
  }
}

void CpuProgram::find_lifetimes() {
  for (std::uint32_t s = 0; s < steps_.size(); ++s) {
    for (std::uint32_t i = steps_[s].first; i < steps_[s].last; ++i) {
      const CpuOperation& operation = operations_[i];
      if (operation.result != kNoValue) {
        values_[operation.result].first_step = values_[operation.result].last_step = s;
      }
      for (const ValueId input : {operation.a, operation.b}) {
        if (input == kNoValue) continue;
        values_[input].last_step = s;
        values_[input].last_reader = i;
      }
    }
  }
}

// A result takes the place of its first input if nothing reads that any more.
void CpuProgram::share_places() {
  for (std::uint32_t i = 0; i < operations_.size(); ++i) {
    const CpuOperation& operation = operations_[i];
    if (!works_in_place(operation.op)) continue;
    CpuValue& result = values_[operation.result];
    const CpuValue& input = values_[operation.a];
    if (input.last_reader != i || input.rows != result.rows || input.dim != result.dim ||
        input.external != nullptr || result.external != nullptr) {
      continue;
    }
    const ValueId place = input.same_place == kNoValue ? operation.a : input.same_place;
    result.same_place = place;
    values_[place].last_step = std::max(values_[place].last_step, result.last_step);
  }
}

// Within a step rows are at different operations, so places change hands between steps only.
std::size_t CpuProgram::place_values() {
  Places places;
  std::vector<std::vector<ValueId>> ending(steps_.size());
  for (std::uint32_t s = 0; s < steps_.size(); ++s) {
    for (std::uint32_t i = steps_[s].first; i < steps_[s].last; ++i) {
      const ValueId id = operations_[i].result;
      if (id == kNoValue) continue;
      CpuValue& value = values_[id];
      if (value.external != nullptr) continue;
      if (value.same_place != kNoValue) {
        value.offset = values_[value.same_place].offset;
        continue;
      }
      value.offset = places.take(value.bytes());
      ending[value.last_step].push_back(id);
    }
    for (const ValueId id : ending[s]) places.give_back(values_[id].offset, values_[id].bytes());
  }
  return places.end();
}

}  // namespace refrain::model
