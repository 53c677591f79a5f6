// The program `refrain`. Main thread.
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/console.h"

int main(int argc, char** argv) {
  using namespace refrain::cli;
  // A reader that went away shows as a failed write, not as a signal.
  std::signal(SIGPIPE, SIG_IGN);
  const Environment environment = process_environment();
  Console console(STDOUT_FILENO, STDERR_FILENO, environment);
  return run_program(std::vector<std::string>(argv + 1, argv + argc), environment, console);
}
