// `refrain chat`: a conversation in the terminal, or with lines from a pipe. Main thread.
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/str.h"
#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/line_reader.h"
#include "cli/signals.h"

namespace refrain::cli {
namespace {

constexpr std::string_view kHelp =
    "/exit    leave (Ctrl-D too)\n"
    "/reset   forget the conversation\n"
    "/help    this list\n"
    "A line that ends in \\ goes on in the next one. Ctrl-C stops an answer.";

class Conversation {
 public:
  Conversation(EngineHost& host, const Settings& settings, Console& console)
      : answerer_(host, settings, console), settings_(settings), console_(console) {
    reset();
  }

  void reset() {
    messages_.clear();
    if (!settings_.text("--system").empty()) {
      messages_.push_back({.role = "system", .content = settings_.text("--system")});
    }
  }

  // False if the turn failed; the conversation is then as before.
  bool turn(const std::string& text) {
    messages_.push_back({.role = "user", .content = text});
    const Result<Answer> answer =
        answerer_.chat(messages_, [&](std::string_view piece) { return console_.out(piece); });
    if (!answer.ok()) {
      messages_.pop_back();
      Error error = answer.error();
      if (error.code == Code::kContextLength) error.hint = "/reset starts anew";
      console_.error(error);
      return false;
    }
    console_.out("\n");
    // What the user saw of a stopped answer is part of the conversation.
    messages_.push_back({.role = "assistant", .content = answer->text});
    if (answer->interrupted && !console_.out_closed()) console_.say("(stopped)");
    if (settings_.boolean("--stats")) console_.say(describe_answer(*answer));
    return true;
  }

  bool interrupt() { return answerer_.interrupt(); }

 private:
  Answerer answerer_;
  const Settings& settings_;
  Console& console_;
  std::vector<text::ChatMessage> messages_;
};

// A message of one or more lines; nothing at the end of input.
std::optional<std::string> read_message(LineReader& reader, Console& console, bool interactive) {
  std::string message;
  for (;;) {
    if (interactive) console.out(message.empty() ? "> " : "  ");
    std::optional<std::string> line = reader.next();
    if (!line.has_value()) return message.empty() ? std::nullopt : std::optional(message);
    const bool goes_on = interactive && line->ends_with('\\');
    if (goes_on) line->pop_back();
    message += *line;
    if (!goes_on) return message;
    message += '\n';
  }
}

// Runs until the end of input; the exit code of the last turn for pipes, success for people.
Exit converse(Conversation& conversation, Console& console, bool interactive) {
  LineReader reader(STDIN_FILENO);
  bool failed = false;
  while (!console.out_closed()) {
    const std::optional<std::string> message = read_message(reader, console, interactive);
    if (!message.has_value()) break;
    const std::string_view text = trim(*message);
    if (text.empty()) continue;
    if (text == "/exit" || text == "/quit") return Exit::kOk;
    if (text == "/help") {
      console.say(kHelp);
    } else if (text == "/reset") {
      conversation.reset();
      console.say("(conversation forgotten)");
    } else if (text.front() == '/' && text.find(' ') == std::string_view::npos && interactive) {
      console.say(str_cat("unknown command `", to_valid_utf8(text), "`; /help lists them"));
    } else {
      failed = !conversation.turn(*message);
    }
  }
  if (interactive) console.out("\n");
  return failed && !interactive ? Exit::kFailed : Exit::kOk;
}

}  // namespace

Exit run_chat(const Settings& settings, Console& console) {
  SignalWatcher signals(/*ignore_hangup=*/false);
  signals.set_handler([](int, int) { leave_now(static_cast<int>(Exit::kFailed)); });
  auto host = EngineHost::start(settings, console);
  if (!host.ok()) return fail(host.error(), console);
  if (!(*host)->compute.loaded.chat_template.has_value()) {
    return fail(
        Error{
            Code::kUnsupported,
            str_cat("model `", (*host)->compute.loaded.name, "` has no chat template"),
            "continue text with `refrain run --raw`, or give a template with --chat-template FILE"},
        console);
  }
  Conversation conversation(**host, settings, console);
  const bool interactive = ::isatty(STDIN_FILENO) == 1;
  signals.set_handler([&](int signal, int) {
    if (signal == SIGTERM) leave_now(static_cast<int>(Exit::kOk));
    const bool stopped = conversation.interrupt();
    if (stopped) return;
    if (!interactive) leave_now(static_cast<int>(Exit::kFailed));
    console.out("\n(/exit or Ctrl-D leaves)\n> ");
  });
  if (interactive)
    console.say(str_cat("talking to ", (*host)->compute.loaded.name, "; /help lists commands"));
  const Exit exit = converse(conversation, console, interactive);
  signals.set_handler([](int, int) { leave_now(static_cast<int>(Exit::kOk)); });
  return exit;
}

}  // namespace refrain::cli
