// Checks for our own bugs. A failed CHECK prints where and why and aborts the process; it is
// never reachable from input (input errors are `Result`s, see base/result.h).
// Any thread. Example:  CHECK(free_count <= total, "free list longer than the pool");
#pragma once

#include <string_view>

namespace refrain {

// Prints "check failed: file:line: expression: message" on stderr and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* expression,
                               std::string_view message);

}  // namespace refrain

#define CHECK(condition, message)                                                   \
  do {                                                                              \
    if (!(condition)) [[unlikely]]                                                  \
      ::refrain::check_failed(__FILE__, __LINE__, #condition, (message));           \
  } while (false)

#ifdef NDEBUG
#define DCHECK(condition, message) \
  do {                             \
  } while (false)
#else
#define DCHECK(condition, message) CHECK(condition, message)
#endif
