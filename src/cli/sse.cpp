// Server-sent events, the part of the format that OpenAI servers use.
#include "cli/sse.h"

namespace refrain::cli {

void SseParser::take_line(std::string_view line, const OnData& on_data) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.empty()) {  // end of an event
    if (has_data_) on_data(data_);
    data_.clear();
    has_data_ = false;
    return;
  }
  constexpr std::string_view kField = "data:";
  if (!line.starts_with(kField)) return;  // comments, event names
  line.remove_prefix(kField.size());
  if (line.starts_with(' ')) line.remove_prefix(1);
  if (has_data_) data_ += '\n';
  data_ += line;
  has_data_ = true;
}

Result<void> SseParser::push(std::string_view bytes, const OnData& on_data) {
  constexpr std::size_t kLargestEvent = std::size_t{16} << 20U;
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    line_ += bytes.substr(0, end);
    if (line_.size() + data_.size() > kLargestEvent) {
      return Error{Code::kTooLarge, "the server sent an event of more than 16 MiB"};
    }
    if (end == std::string_view::npos) return {};
    take_line(line_, on_data);
    line_.clear();
    bytes.remove_prefix(end + 1);
  }
  return {};
}

}  // namespace refrain::cli
