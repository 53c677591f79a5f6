// Reading lines. Main thread.
#include "cli/line_reader.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/str.h"

namespace refrain::cli {

std::optional<std::string> LineReader::next() {
  constexpr std::size_t kLongestLine = 1U << 20U;
  std::size_t searched = 0;
  for (;;) {
    const std::size_t end = buffer_.find('\n', searched);
    if (end != std::string::npos || buffer_.size() > kLongestLine || (ended_ && !buffer_.empty())) {
      const std::size_t length = std::min({end, buffer_.size(), kLongestLine});
      std::string line = buffer_.substr(0, length);
      buffer_.erase(0, length == end ? length + 1 : length);
      if (line.ends_with('\r')) line.pop_back();
      return to_valid_utf8(line);
    }
    if (ended_) return std::nullopt;
    searched = buffer_.size();
    std::array<char, 4096> chunk{};
    const ssize_t count = ::read(descriptor_, chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      ended_ = true;
    } else {
      buffer_.append(chunk.data(), static_cast<std::size_t>(count));
    }
  }
}

}  // namespace refrain::cli
