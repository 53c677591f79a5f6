// Writing to the two streams. Any thread.
#include "cli/console.h"

#include <unistd.h>

#include <cerrno>

#include "base/str.h"

namespace refrain::cli {
namespace {

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

}  // namespace

Console::Console(int out_descriptor, int error_descriptor, const Environment& environment)
    : out_(out_descriptor), error_(error_descriptor) {
  out_is_terminal_ = ::isatty(out_) == 1;
  error_is_terminal_ = ::isatty(error_) == 1;
  colour_ = error_is_terminal_ && environment("NO_COLOR").empty() && environment("TERM") != "dumb";
}

bool Console::out(std::string_view text) {
  std::lock_guard lock(mutex_);
  if (out_closed_) return false;
  if (out_is_terminal_) clear_progress();
  if (!write_all(out_, text)) out_closed_ = true;
  return !out_closed_;
}

bool Console::out_closed() const {
  std::lock_guard lock(mutex_);
  return out_closed_;
}

void Console::write_error(std::string_view text) {
  std::lock_guard lock(mutex_);
  clear_progress();
  (void)write_all(error_, text);
}

void Console::say(std::string_view line) {
  write_error(str_cat(line, "\n"));
}

void Console::labelled(std::string_view label, std::string_view colour, std::string_view message,
                       std::string_view hint) {
  const std::string_view reset = colour_ ? "\033[0m" : "";
  std::string text =
      str_cat(colour_ ? colour : "", label, ":", reset, " ", to_valid_utf8(message), "\n");
  if (!hint.empty())
    text += str_cat(colour_ ? "\033[36m" : "", "hint:", reset, " ", to_valid_utf8(hint), "\n");
  write_error(text);
}

// The option it is about is named, if the words do not name it.
void Console::error(const Error& error) {
  const bool is_named = error.field.substr(0, 2) != "--" ||
                        error.message.find(error.field) != std::string::npos ||
                        error.hint.find(error.field) != std::string::npos;
  labelled("error", "\033[1;31m",
           is_named ? error.message : str_cat(error.field, ": ", error.message), error.hint);
}

void Console::warn(std::string_view message, std::string_view hint) {
  labelled("warning", "\033[1;33m", message, hint);
}

void Console::note(std::string_view message) {
  labelled("note", "\033[1m", message, {});
}

void Console::progress(std::string_view label, double share) {
  if (!error_is_terminal_) return;
  const std::string line = str_cat(label, " ", static_cast<int>(share * 100.0), " %");
  std::lock_guard lock(mutex_);
  if (line == progress_) return;
  (void)write_all(error_, str_cat("\r\033[K", line));
  progress_ = line;
}

void Console::end_progress() {
  std::lock_guard lock(mutex_);
  clear_progress();
}

void Console::clear_progress() {
  if (progress_.empty()) return;
  (void)write_all(error_, "\r\033[K");
  progress_.clear();
}

}  // namespace refrain::cli
