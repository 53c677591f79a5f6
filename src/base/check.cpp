#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace refrain {

void check_failed(const char* file, int line, const char* expression, std::string_view message) {
  std::fprintf(stderr, "check failed: %s:%d: %s: %.*s\n", file, line, expression,
               static_cast<int>(message.size()), message.data());
  std::fflush(stderr);
  std::abort();
}

}  // namespace refrain
