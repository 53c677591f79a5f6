// LineReader: lines of a descriptor as they come, bounded in length; replaces ill-formed UTF-8. One
// owner, main thread.
#pragma once

#include <optional>
#include <string>

namespace refrain::cli {

class LineReader {
 public:
  explicit LineReader(int descriptor) : descriptor_(descriptor) {}
  // The next line without its line break; nothing at the end of input. A line over 1 MiB is cut
  // there into several.
  std::optional<std::string> next();

 private:
  const int descriptor_;
  std::string buffer_;
  bool ended_ = false;
};

}  // namespace refrain::cli
