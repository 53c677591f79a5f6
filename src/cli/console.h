// Console: everything the program writes. Data goes to stdout, all else to stderr. A reader of
// stdout that went away is no error: out() says false, and the command ends with success. Colour
// only on a terminal, never with NO_COLOR. Any thread (lines are not torn); one per process.
#pragma once

#include <mutex>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/files.h"

namespace refrain::cli {

class Console {
 public:
  // File descriptors of the two streams; SIGPIPE must be ignored by then.
  Console(int out_descriptor, int error_descriptor, const Environment& environment);

  // Data. False once stdout is closed; nothing is written then.
  bool out(std::string_view text);
  bool out_closed() const;

  // A line for people.
  void say(std::string_view line);
  // error: MESSAGE / hint: HINT
  void error(const Error& error);
  void warn(std::string_view message, std::string_view hint = {});
  void note(std::string_view message);

  // A line that the next one replaces; only if stderr is a terminal. `share` is 0..1.
  void progress(std::string_view label, double share);
  void end_progress();

  bool out_is_terminal() const { return out_is_terminal_; }
  bool error_is_terminal() const { return error_is_terminal_; }

 private:
  void write_error(std::string_view text);
  void labelled(std::string_view label, std::string_view colour, std::string_view message,
                std::string_view hint);
  void clear_progress();

  const int out_;
  const int error_;
  bool out_is_terminal_ = false;
  bool error_is_terminal_ = false;
  bool colour_ = false;
  mutable std::mutex mutex_;
  bool out_closed_ = false;
  std::string progress_;  // the line shown now
};

}  // namespace refrain::cli
