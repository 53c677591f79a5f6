// The layout of quantized rows. Any thread.
#include "kernels/linear.h"

#include "kernels/linear_scratch.h"

namespace refrain::kernels {
namespace {

constexpr std::size_t kAlignment = 64;

template <typename T>
T* take(std::byte* memory, std::size_t& at, std::size_t count) {
  T* taken = memory == nullptr ? nullptr : reinterpret_cast<T*>(memory + at);
  at += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
  return taken;
}

std::size_t lay_out(std::byte* memory, std::size_t rows, std::uint32_t dim, QuantizedRows& made) {
  made.columns = (dim + kGroup - 1) / kGroup * kGroup;
  std::size_t at = 0;
  made.values = take<std::int8_t>(memory, at, rows * made.columns);
  made.scales = take<float>(memory, at, rows * made.groups());
  made.scaled_sums = take<float>(memory, at, rows * made.groups());
  made.sums = take<std::int32_t>(memory, at, rows * made.groups() * 2);
  made.excesses = take<Excess>(memory, at, rows * made.quads());
  made.excess_ends = take<std::uint32_t>(memory, at, rows * made.chunks());
  return at;
}

}  // namespace

std::size_t QuantizedRows::bytes(std::uint32_t rows, std::uint32_t dim) {
  QuantizedRows unused;
  return lay_out(nullptr, rows, dim, unused);
}

QuantizedRows QuantizedRows::at(std::byte* memory, std::uint32_t rows, std::uint32_t dim) {
  QuantizedRows made;
  lay_out(memory, rows, dim, made);
  return made;
}

std::size_t linear_scratch_bytes() {
  return sizeof(LinearScratch);
}

}  // namespace refrain::kernels
