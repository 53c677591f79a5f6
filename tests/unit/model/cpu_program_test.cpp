// CpuProgram: steps form as drawn in its header, and no value ever lies where another that is still
// needed lies (found by brute force over random programs).
#include "model/cpu_program.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace refrain::model {
namespace {

ValueId record(CpuProgram& program, CpuOperation operation, std::uint32_t rows, std::uint32_t dim) {
  operation.result = program.new_value(rows, dim, operation.op == CpuOp::kQuantize);
  program.add(operation);
  return operation.result;
}

TEST(CpuProgram, JoinsRowOperationsAndProductsOfTheSameRows) {
  CpuProgram p;
  const ValueId x = record(p, {.op = CpuOp::kEmbed}, 5, 64);
  const ValueId normed = record(p, {.op = CpuOp::kRmsNorm, .a = x}, 5, 64);
  const ValueId rows = record(p, {.op = CpuOp::kQuantize, .a = normed}, 5, 64);
  const ValueId gate = record(p, {.op = CpuOp::kLinear, .a = rows}, 5, 128);
  const ValueId up = record(p, {.op = CpuOp::kLinear, .a = rows}, 5, 128);
  const ValueId both = record(p, {.op = CpuOp::kGlu, .a = gate, .b = up}, 5, 128);
  const ValueId plain = record(p, {.op = CpuOp::kLinear, .a = both}, 5, 64);
  const ValueId sum = record(p, {.op = CpuOp::kAdd, .a = x, .b = plain}, 5, 64);
  const std::int32_t chosen[] = {4};
  const ValueId last = record(p, {.op = CpuOp::kGather, .a = sum, .rows = chosen}, 1, 64);
  record(p, {.op = CpuOp::kScale, .a = last}, 1, 64);
  p.arrange();
  std::vector<std::uint32_t> sizes;
  for (const CpuStep& step : p.steps()) sizes.push_back(step.last - step.first);
  EXPECT_EQ(sizes, (std::vector<std::uint32_t>{3, 2, 1, 1, 1, 2}));
  EXPECT_EQ(p.value(both).same_place, gate);        // nothing else reads it
  EXPECT_EQ(p.value(normed).same_place, kNoValue);  // x is read again
  EXPECT_EQ(p.value(sum).same_place, x);
}

// The values of random programs, each with its place and the steps it must keep it for.
TEST(CpuProgram, ValuesThatAreNeededTogetherNeverOverlap) {
  Rng rng(11);
  for (int trial = 0; trial < 200; ++trial) {
    CpuProgram p;
    std::vector<ValueId> made = {record(p, {.op = CpuOp::kEmbed}, 3, 32)};
    const auto any = [&] { return made[rng.below(made.size())]; };
    for (int i = 0; i < 60; ++i) {
      constexpr CpuOp kOps[] = {CpuOp::kAdd, CpuOp::kGlu, CpuOp::kLinear, CpuOp::kRmsNorm,
                                CpuOp::kAttend};
      const CpuOp op = kOps[rng.below(std::size(kOps))];
      const bool two = op == CpuOp::kAdd || op == CpuOp::kGlu;
      const std::uint32_t dim = op == CpuOp::kLinear ? 16 << rng.below(4) : 32;
      made.push_back(record(p, {.op = op, .a = any(), .b = two ? any() : kNoValue}, 3, dim));
    }
    const std::size_t bytes = p.arrange();
    const auto& operations = p.operations();
    // Last operation that reads each value, through all that took over its place.
    for (std::size_t i = 0; i < made.size(); ++i) {
      const CpuValue& a = p.value(made[i]);
      EXPECT_LE(a.offset + a.bytes(), bytes);
      for (std::size_t j = i + 1; j < made.size(); ++j) {
        const CpuValue& b = p.value(made[j]);
        const bool apart = a.offset + a.bytes() <= b.offset || b.offset + b.bytes() <= a.offset;
        if (apart) continue;
        // They share memory: either b took a's place at the operation that read a last, or all
        // that read a did so in an earlier step.
        std::uint32_t last_read = 0;
        for (std::uint32_t k = 0; k < operations.size(); ++k) {
          if (operations[k].a == made[i] || operations[k].b == made[i]) last_read = k;
        }
        const auto writer = static_cast<std::uint32_t>(j);  // operation j makes value j
        const bool taken_over = last_read <= writer && a.offset == b.offset && a.dim == b.dim;
        const bool earlier_step = a.last_step < b.first_step;
        EXPECT_TRUE(taken_over || earlier_step) << "trial " << trial << ": " << i << ", " << j;
      }
    }
  }
}

}  // namespace
}  // namespace refrain::model
