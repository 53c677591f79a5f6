// Shared steps of the commands. Main thread.
#include "cli/input.h"

#include <unistd.h>

#include <cerrno>

#include "base/str.h"

namespace refrain::cli {

Result<std::string> argument_or_stdin(const Settings& settings, bool exact) {
  constexpr std::size_t kMost = std::size_t{64} << 20U;
  const std::vector<std::string>& words = settings.arguments();
  if (!words.empty() && !(words.size() == 1 && words.front() == "-")) {
    std::string text;
    for (const std::string& word : words) text += str_cat(text.empty() ? "" : " ", word);
    return text;
  }
  std::string text, buffer(std::size_t{64} << 10U, '\0');
  for (;;) {
    const ssize_t count = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      return Error{Code::kInvalidArgument, "stdin cannot be read", "give the text as an argument"};
    if (count == 0) break;
    text.append(buffer, 0, static_cast<std::size_t>(count));
    if (text.size() > kMost)
      return Error{Code::kTooLarge, str_cat("stdin holds more than ", format_bytes(kMost))};
  }
  if (!exact && text.ends_with('\n')) text.pop_back();
  return text;
}

Exit fail(const Error& error, Console& console) {
  console.error(error);
  return error.code == Code::kInvalidArgument ? Exit::kUsage : Exit::kFailed;
}

}  // namespace refrain::cli
