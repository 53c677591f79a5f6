// AlignedBuffer, ThreadScratch: memory that begins at a multiple of 64 bytes (a cache line, a
// vector register) and may be given up for a larger piece. What it held is lost then. One owner, no
// locks.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace refrain {

class AlignedBuffer {
 public:
  static constexpr std::size_t kAlignment = 64;
  static constexpr std::size_t rounded_up(std::size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  // False without memory; the buffer is then as it was.
  [[nodiscard]] bool reserve(std::size_t bytes) {
    if (bytes <= bytes_) return true;
    const std::size_t whole = rounded_up(bytes);
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, whole));
    if (memory == nullptr) return false;
    memory_.reset(memory);
    bytes_ = whole;
    return true;
  }

  std::byte* data() const { return memory_.get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t bytes_ = 0;
};

// A piece of memory for each thread of a team, each aligned.
class ThreadScratch {
 public:
  // False without memory.
  [[nodiscard]] bool reserve(std::size_t bytes_each, std::size_t thread_count) {
    stride_ = AlignedBuffer::rounded_up(bytes_each);
    return memory_.reserve(stride_ * thread_count);
  }
  std::byte* of(std::size_t thread) const { return memory_.data() + stride_ * thread; }
  float* floats_of(std::size_t thread) const { return reinterpret_cast<float*>(of(thread)); }
  std::size_t bytes() const { return memory_.bytes(); }

 private:
  AlignedBuffer memory_;
  std::size_t stride_ = 0;
};

}  // namespace refrain
