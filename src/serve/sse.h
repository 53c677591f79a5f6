// Server-sent events: the lines of a streamed answer. Plain functions, any thread.
#pragma once

#include <string>
#include <string_view>

namespace refrain::serve {

inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";

// `json` holds no raw line break (JsonWriter escapes them), so one data line is enough.
inline std::string sse_event(std::string_view json) {
  std::string line = "data: ";
  line.append(json).append("\n\n");
  return line;
}

// A line clients skip; keeps proxies and read time-outs at bay while nothing is generated.
inline std::string sse_comment(std::string_view text) {
  std::string line = ": ";
  line.append(text).append("\n\n");
  return line;
}

}  // namespace refrain::serve
