// See page_memory.h.
#include "base/page_memory.h"

#include <sys/mman.h>

#include "base/str.h"

namespace refrain {

Result<PageMemory> PageMemory::map(std::size_t bytes, const char* what, const char* hint) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return Error{Code::kUnavailable, str_cat("cannot get ", bytes, " bytes for ", what), hint};
  }
  madvise(memory, bytes, MADV_HUGEPAGE);  // only advice
  PageMemory made;
  made.data_ = static_cast<std::byte*>(memory);
  made.bytes_ = bytes;
  return made;
}

PageMemory::~PageMemory() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

}  // namespace refrain
