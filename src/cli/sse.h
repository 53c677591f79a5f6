// SseParser: the `data:` lines of a server-sent event stream, however its bytes are cut. Bounded:
// an event over 16 MiB is an error. One owner.
//
//   SseParser parser;
//   parser.push(bytes, [&](std::string_view data) { ... });   // data of each complete event
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace refrain::cli {

class SseParser {
 public:
  using OnData = std::function<void(std::string_view data)>;
  Result<void> push(std::string_view bytes, const OnData& on_data);

 private:
  void take_line(std::string_view line, const OnData& on_data);
  std::string line_;  // of an incomplete line
  std::string data_;  // of the event so far
  bool has_data_ = false;
};

}  // namespace refrain::cli
