// PageMemory: a large anonymous mapping, zero until written, whose pages cost nothing before. Asks
// for huge pages, so that fewer addresses are translated. One owner, no locks.
#pragma once

#include <cstddef>
#include <utility>

#include "base/result.h"

namespace refrain {

class PageMemory {
 public:
  // kUnavailable: "cannot get N bytes for WHAT", with the hint.
  static Result<PageMemory> map(std::size_t bytes, const char* what, const char* hint);

  PageMemory() = default;
  PageMemory(PageMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  PageMemory& operator=(PageMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~PageMemory();

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace refrain
